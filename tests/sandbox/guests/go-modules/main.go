// The latest versions of Go modules, from their proxy: plain functions, and HTTP and the rest of WASI 0.2 below them.
package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unsafe"
)

type text struct {
	at  *byte
	len uint32
}

func (value text) String() string {
	return strings.Clone(unsafe.String(value.at, value.len))
}

func lower(value string) text {
	return text{unsafe.StringData(value), uint32(len(value))}
}

// result<string, string>; never freed, since a store serves one call.
type answer struct {
	failed uint8
	value  text
}

var answered answer

func answerWith(value any, err error) unsafe.Pointer {
	encoded, failed := json.Marshal(value)
	switch {
	case err != nil:
		answered = answer{1, lower(err.Error())}
	case failed != nil:
		answered = answer{1, lower(failed.Error())}
	default:
		answered = answer{0, lower(string(encoded))}
	}
	return unsafe.Pointer(&answered)
}

//go:wasmexport test:go-modules/modules#latest-versions
func latestVersions(names *byte, size uint32) unsafe.Pointer {
	found, err := ask(text{names, size}.String())
	versions := map[string]any{}
	for name, module := range found {
		versions[name] = module["Version"]
	}
	return answerWith(versions, err)
}

//go:wasmexport test:go-modules/modules#module-info
func moduleInfo(names *byte, size uint32) unsafe.Pointer {
	found, err := ask(text{names, size}.String())
	return answerWith(found, err)
}

func ask(names string) (map[string]map[string]any, error) {
	found := map[string]map[string]any{}
	for _, name := range strings.Split(names, ",") {
		name = strings.TrimSpace(name)
		body, err := get("proxy.golang.org", "/"+name+"/@latest")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var module map[string]any
		if err := json.Unmarshal(body, &module); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found[name] = module
	}
	return found, nil
}

func main() {}
