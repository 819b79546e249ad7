// {{name}}: counts the words of a text. Change run, Params and tool; keep wasmrt.go.
package main

import "strings"

var tool = Description{
	Name:        "{{name}}",
	Description: "Counts the words of a text.",
	ReadOnly:    true,
	Schema: `{
  "type": "object",
  "properties": { "text": { "type": "string" } },
  "required": ["text"],
  "additionalProperties": false
}`,
}

// Params are the tool's parameters, as in the schema.
type Params struct {
	Text string `json:"text"`
}

func run(params Params) (any, error) {
	return len(strings.Fields(params.Text)), nil
}
