// The same guest as rust/near-agent, against the canonical ABI by hand: Go's own toolchain makes no components.
package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unsafe"
)

// An address is 4 bytes to the host, and 8 in Go's own structs.
type text struct {
	at, len uint32
}

// option<string> and result<string, string>
type tagged struct {
	tag   uint8
	value text
}

type httpAnswer struct {
	failed  uint8
	status  uint32 // a u16 in the low half; where the call failed, the error's address
	headers text
	body    text
}

type response struct {
	output tagged
	err    tagged
}

//go:wasmimport near:agent/host@0.3.0 log
func hostLog(level uint32, at unsafe.Pointer, len uint32)

//go:wasmimport near:agent/host@0.3.0 now-millis
func hostNow() uint64

//go:wasmimport near:agent/host@0.3.0 workspace-read
func hostRead(at unsafe.Pointer, len uint32, out unsafe.Pointer)

//go:wasmimport near:agent/host@0.3.0 secret-exists
func hostSecret(at unsafe.Pointer, len uint32) uint32

//go:wasmimport near:agent/host@0.3.0 tool-invoke
func hostInvoke(alias unsafe.Pointer, aliasLen uint32, params unsafe.Pointer, paramsLen uint32, out unsafe.Pointer)

//go:wasmimport near:agent/host@0.3.0 http-request
func hostHTTP(method unsafe.Pointer, methodLen uint32, url unsafe.Pointer, urlLen uint32, headers unsafe.Pointer, headersLen uint32,
	hasBody uint32, body unsafe.Pointer, bodyLen uint32, hasTimeout uint32, timeout uint32, out unsafe.Pointer)

// What the host was given stays here until the store is gone, out of the collector's reach.
var kept [][]uint64

//go:wasmexport cabi_realloc
func realloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	block := make([]uint64, size/8+1)
	kept = append(kept, block)
	at := unsafe.Pointer(&block[0])
	if old != nil {
		copy(unsafe.Slice((*byte)(at), size), unsafe.Slice((*byte)(old), oldSize))
	}
	return at
}

func lower(value string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(value)), uint32(len(value))
}

func pointer(at uint32) unsafe.Pointer {
	return unsafe.Pointer(uintptr(at))
}

func lowered(value string) text {
	at, size := lower(value)
	return text{uint32(uintptr(at)), size}
}

func (value text) String() string {
	return strings.Clone(unsafe.String((*byte)(pointer(value.at)), value.len))
}

var (
	answer   response
	words    text
	answered string
	calls    int
)

func set(place *tagged, value string) {
	answered = value
	*place = tagged{1, lowered(answered)}
}

//go:wasmexport near:agent/tool@0.3.0#execute
func execute(params unsafe.Pointer, paramsLen uint32, hasContext uint32, context unsafe.Pointer, contextLen uint32) unsafe.Pointer {
	given := "null"
	if hasContext == 1 {
		given = unsafe.String((*byte)(context), contextLen)
	}
	output, err := run(unsafe.String((*byte)(params), paramsLen), given)
	if err != nil {
		set(&answer.err, err.Error())
	} else {
		set(&answer.output, output)
	}
	return unsafe.Pointer(&answer)
}

//go:wasmexport near:agent/tool@0.3.0#schema
func schema() unsafe.Pointer {
	return constant(`{"type": "object", "properties": {"op": {"type": "string"}, "arg": {"type": "string"}}}`)
}

//go:wasmexport near:agent/tool@0.3.0#description
func description() unsafe.Pointer {
	return constant("Does on request what a test wants to see.")
}

func constant(value string) unsafe.Pointer {
	words = lowered(value)
	return unsafe.Pointer(&words)
}

func run(params, context string) (string, error) {
	var wanted struct{ Op, Arg string }
	if err := json.Unmarshal([]byte(params), &wanted); err != nil {
		return "", err
	}
	at, size := lower(wanted.Arg)
	switch wanted.Op {
	case "", "echo":
		return params, nil
	case "context":
		return context, nil
	case "now":
		return fmt.Sprintf(`{"now": %d}`, hostNow()), nil
	case "workspace":
		return workspace(wanted.Arg)
	case "http":
		return http(wanted.Arg)
	case "invoke":
		return invoke(wanted.Arg)
	case "secret":
		return strconv.FormatBool(hostSecret(at, size) == 1), nil
	case "log":
		for level := range uint32(5) {
			hostLog(level, at, size)
		}
		return "null", nil
	case "fail":
		return "", fmt.Errorf("%s", wanted.Arg)
	case "count":
		calls++
		return strconv.Itoa(calls), nil
	}
	return misbehave(wanted.Op, wanted.Arg)
}

func workspace(path string) (string, error) {
	var got tagged
	at, size := lower(path)
	hostRead(at, size, unsafe.Pointer(&got))
	var found *string
	if got.tag == 1 {
		value := got.value.String()
		found = &value
	}
	return encode(map[string]any{"text": found})
}

func http(url string) (string, error) {
	var got httpAnswer
	method, methodLen := lower("GET")
	at, size := lower(url)
	headers, headersLen := lower(`{"accept": "*/*"}`)
	hostHTTP(method, methodLen, at, size, headers, headersLen, 0, nil, 0, 1, 5000, unsafe.Pointer(&got))
	if got.failed == 1 {
		// error: string lies where status and the headers' address would
		message := text{got.status, got.headers.at}
		return "", fmt.Errorf("%s", message)
	}
	return encode(map[string]any{
		"status": uint16(got.status), "headers": json.RawMessage(got.headers.String()), "body": got.body.String(),
	})
}

func invoke(alias string) (string, error) {
	var got tagged
	at, size := lower(alias)
	params, paramsLen := lower("{}")
	hostInvoke(at, size, params, paramsLen, unsafe.Pointer(&got))
	if got.tag == 1 {
		return "", fmt.Errorf("%s", got.value)
	}
	return got.value.String(), nil
}

func encode(value any) (string, error) {
	out, err := json.Marshal(value)
	return string(out), err
}

func misbehave(op, arg string) (string, error) {
	switch op {
	case "trap":
		panic(arg)
	case "spin":
		for {
		}
	case "grow":
		var held [][]byte
		for {
			held = append(held, make([]byte, 1<<20))
		}
	case "recurse":
		return strconv.Itoa(recurse(1)), nil
	case "invalid":
		return "this is not JSON", nil
	case "big":
		size, err := strconv.Atoi(arg)
		return `"` + strings.Repeat("x", size) + `"`, err
	}
	return "", fmt.Errorf("no operation %q", op)
}

func recurse(depth int) int {
	return recurse(depth+1) + depth
}

func main() {}
