// {{name}}: returns the temperature at a place. Change run, Params and tool; keep wasmrt.go.
package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

var tool = Description{
	Name:        "{{name}}",
	Description: "Tells how warm it is at a place.",
	ReadOnly:    true,
	Network:     true,
	Schema: `{
  "type": "object",
  "properties": {
    "place": { "type": "string", "description": "A place listed in weather/places.txt" },
    "unit": { "type": "string", "enum": ["celsius", "fahrenheit"], "description": "Default: celsius" }
  },
  "required": ["place"],
  "additionalProperties": false
}`,
}

// Params are the tool's parameters, as in the schema.
type Params struct {
	Place string `json:"place"`
	Unit  string `json:"unit"`
}

// Answer is the result, as JSON.
type Answer struct {
	Place       string  `json:"place"`
	Temperature float64 `json:"temperature"`
	Unit        string  `json:"unit"`
}

func run(params Params) (any, error) {
	if params.Unit == "" {
		params.Unit = "celsius"
	}
	latitude, longitude, err := coordinates(params.Place)
	if err != nil {
		return nil, err
	}
	Progress(1, 2, "found the place")

	var forecast struct {
		Current struct {
			Temperature float64 `json:"temperature_2m"`
		} `json:"current"`
	}
	address := fmt.Sprintf(
		"https://api.open-meteo.com/v1/forecast?latitude=%s&longitude=%s&current=temperature_2m&temperature_unit=%s",
		url.QueryEscape(latitude), url.QueryEscape(longitude), url.QueryEscape(params.Unit))
	if err := get(address, &forecast); err != nil {
		return nil, err
	}
	Progress(2, 2, "")
	return Answer{params.Place, forecast.Current.Temperature, params.Unit}, nil
}

// Each line of the file is a name, a latitude and a longitude.
func coordinates(place string) (latitude, longitude string, err error) {
	// A refused or missing file is the host's failure, passed on unchanged.
	file, err := ReadFile("weather/places.txt")
	if err != nil {
		return "", "", err
	}
	var known []string
	for _, line := range strings.Split(file, "\n") {
		words := strings.Fields(line)
		if len(words) != 3 {
			continue
		}
		if words[0] == place {
			return words[1], words[2], nil
		}
		known = append(known, words[0])
	}
	message := fmt.Sprintf("there is no place %q, only %s", place, strings.Join(known, ", "))
	return "", "", &Failure{Input, "unknown-place", message}
}

func get(address string, answer any) error {
	Log(Info, "GET "+address)
	accept := Header{"accept", "application/json"}
	response, err := Fetch(Request{URL: address, Headers: []Header{accept}, TimeoutMs: 10_000})
	if err != nil {
		return err
	}
	if response.Status != 200 {
		return &Failure{OperationFailed, "bad-status", fmt.Sprintf("the API answered with status %d", response.Status)}
	}
	if err := json.Unmarshal(response.Body, answer); err != nil {
		return &Failure{OperationFailed, "bad-answer", err.Error()}
	}
	return nil
}
