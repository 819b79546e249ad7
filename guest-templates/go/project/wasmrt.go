package main

// The world wasmrt:tool@0.1.0 by the canonical ABI, because Go's toolchain makes no components. tool.go uses this file.
//
// In the sandbox Go's runtime has no files, no entropy and a clock that only counts: use Now, and do
// not use crypto/rand.

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// Failure is an error with a kind and a code for the caller; any other error is an operation-failed.
type Failure struct {
	Kind    Kind
	Code    string
	Message string
}

func (failure *Failure) Error() string { return failure.Message }

type Kind uint8

const (
	AuthRequired Kind = iota
	Input
	OutputTooLarge
	Executor
	NetworkDenied
	Client
	OperationFailed
)

type Level uint32

const (
	Trace Level = iota
	Debug
	Info
	Warn
	Error
)

type Method uint32

const (
	Get Method = iota
	Head
	Post
	Put
	Patch
	Delete
	Options
)

type Header struct{ Name, Value string }

type Request struct {
	Method    Method
	URL       string
	Headers   []Header
	Body      []byte
	TimeoutMs uint32 // 0: the host's default
}

type Response struct {
	Status  uint16
	Headers []Header
	Body    []byte
}

// Fetch makes one request through the host's allowlist.
func Fetch(request Request) (Response, error) {
	headers := make([]abiHeader, len(request.Headers)+1)
	for index, header := range request.Headers {
		headers[index] = abiHeader{lower(header.Name), lower(header.Value)}
	}
	kept = append(kept, headers)
	url, body := lower(request.URL), lower(string(request.Body))
	var out abiResponse
	hostFetch(uint32(request.Method), url.at, url.len, address(unsafe.Pointer(&headers[0])), uint32(len(request.Headers)),
		given(request.Body != nil), body.at, body.len, given(request.TimeoutMs != 0), request.TimeoutMs, unsafe.Pointer(&out))
	if out.failed == 1 {
		return Response{}, (*abiFailure)(unsafe.Pointer(&out.status)).lift()
	}
	response := Response{Status: uint16(out.status), Body: []byte(out.body.lift())}
	for _, header := range unsafe.Slice((*abiHeader)(pointer(out.headers.at)), out.headers.len) {
		response.Headers = append(response.Headers, Header{header.name.lift(), header.value.lift()})
	}
	return response, nil
}

// ReadFile reads a file of the workspace.
func ReadFile(path string) (string, error) {
	var out abiResult
	place := lower(path)
	hostRead(place.at, place.len, unsafe.Pointer(&out))
	return out.lift()
}

// Invoke calls another tool by its alias; params and answer are JSON.
func Invoke(alias, params string) (string, error) {
	var out abiResult
	name, given := lower(alias), lower(params)
	hostInvoke(name.at, name.len, given.at, given.len, unsafe.Pointer(&out))
	return out.lift()
}

// SecretExists reports whether a granted secret is set. Values are not accessible.
func SecretExists(name string) bool {
	text := lower(name)
	return hostSecret(text.at, text.len) == 1
}

// Log adds to the call's log.
func Log(level Level, message string) {
	text := lower(message)
	hostLog(uint32(level), text.at, text.len)
}

// Now is the host's clock in Unix milliseconds.
func Now() uint64 { return hostNow() }

// Progress reports the call's progress to the caller.
func Progress(done, total uint64, message string) {
	text := lower(message)
	hostProgress(done, given(total != 0), total, given(message != ""), text.at, text.len)
}

//go:wasmimport wasmrt:tool/http@0.1.0 fetch
func hostFetch(method, url, urlLen, headers, headerCount, hasBody, body, bodyLen, hasTimeout, timeout uint32, out unsafe.Pointer)

//go:wasmimport wasmrt:tool/workspace@0.1.0 read
func hostRead(path, pathLen uint32, out unsafe.Pointer)

//go:wasmimport wasmrt:tool/tools@0.1.0 invoke
func hostInvoke(alias, aliasLen, params, paramsLen uint32, out unsafe.Pointer)

//go:wasmimport wasmrt:tool/secrets@0.1.0 exists
func hostSecret(name, nameLen uint32) uint32

//go:wasmimport wasmrt:tool/log@0.1.0 log
func hostLog(level, message, messageLen uint32)

//go:wasmimport wasmrt:tool/clock@0.1.0 now
func hostNow() uint64

//go:wasmimport wasmrt:tool/progress@0.1.0 report
func hostProgress(done uint64, hasTotal uint32, total uint64, hasMessage, message, messageLen uint32)

// An address is 4 bytes to the host, and 8 in Go's own structs.
type abiText struct{ at, len uint32 }

type abiHeader struct{ name, value abiText }

type abiFailure struct {
	kind    uint32
	hasCode uint32
	code    abiText
	message abiText
}

type abiResult struct {
	failed uint32
	// The string, or the failure, which is longer.
	ok   abiText
	rest [4]uint32
}

type abiResponse struct {
	failed  uint32
	status  uint32
	headers abiText
	body    abiText
	rest    uint32
}

type abiTool struct {
	name, description, schema      abiText
	readOnly, destructive, network bool
}

// kept holds memory passed to the host, so that it is not collected: a store lives for one call.
var kept []any

func address(at unsafe.Pointer) uint32 { return uint32(uintptr(at)) }

func pointer(at uint32) unsafe.Pointer {
	zero := unsafe.Pointer(nil)
	return unsafe.Add(zero, at)
}

func lower(text string) abiText {
	kept = append(kept, text)
	return abiText{address(unsafe.Pointer(unsafe.StringData(text))), uint32(len(text))}
}

func (text abiText) lift() string {
	return strings.Clone(unsafe.String((*byte)(pointer(text.at)), text.len))
}

func (failure *abiFailure) lift() error {
	lifted := &Failure{Kind: Kind(uint8(failure.kind)), Message: failure.message.lift()}
	if uint8(failure.hasCode) == 1 {
		lifted.Code = failure.code.lift()
	}
	return lifted
}

func (result *abiResult) lift() (string, error) {
	if uint8(result.failed) == 1 {
		return "", (*abiFailure)(unsafe.Pointer(&result.ok)).lift()
	}
	return result.ok.lift(), nil
}

func given(value bool) uint32 {
	if value {
		return 1
	}
	return 0
}

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

//go:wasmexport wasmrt:tool/provider@0.1.0#describe
func describe() unsafe.Pointer {
	tool := &abiTool{lower(tool.Name), lower(tool.Description), lower(tool.Schema), tool.ReadOnly, tool.Destructive, tool.Network}
	list := &abiText{address(unsafe.Pointer(tool)), 1}
	kept = append(kept, tool, list)
	return unsafe.Pointer(list)
}

//go:wasmexport wasmrt:tool/provider@0.1.0#call
func call(name unsafe.Pointer, nameLen uint32, params unsafe.Pointer, paramsLen uint32, hasContext uint32, context unsafe.Pointer, contextLen uint32) unsafe.Pointer {
	out := &abiResult{}
	kept = append(kept, out)
	encoded, err := answer(unsafe.Slice((*byte)(params), paramsLen))
	if err != nil {
		out.fail(err)
	} else {
		out.ok = lower(string(encoded))
	}
	return unsafe.Pointer(out)
}

// answer runs the tool. A panic becomes its failure; a fatal error of Go is written to standard error, which
// preview1.wat logs.
func answer(params []byte) (encoded []byte, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = &Failure{OperationFailed, "crashed", fmt.Sprint("panic: ", reason, panicked())}
		}
	}()
	var wanted Params
	if err := json.Unmarshal(params, &wanted); err != nil {
		return nil, &Failure{Input, "invalid-params", err.Error()}
	}
	result, err := run(wanted)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// panicked names the line of main that panicked.
func panicked() string {
	callers := make([]uintptr, 32)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "main.") && frame.Function != "main.answer" {
			return fmt.Sprintf(" (line %d, in %s)", frame.Line, strings.TrimPrefix(frame.Function, "main."))
		}
		if !more {
			return ""
		}
	}
}

func (result *abiResult) fail(err error) {
	var failure *Failure
	if !errors.As(err, &failure) {
		failure = &Failure{Kind: OperationFailed, Message: err.Error()}
	}
	result.failed = 1
	*(*abiFailure)(unsafe.Pointer(&result.ok)) = abiFailure{
		uint32(failure.Kind), given(failure.Code != ""), lower(failure.Code), lower(failure.Message),
	}
}

// Description describes the tool to the host.
type Description struct {
	Name, Description, Schema      string
	ReadOnly, Destructive, Network bool
}

// line is the buffer in which preview1.wat collects standard error, to log it: the message of a fatal error.
var line [1024]byte

//go:wasmimport wasi_snapshot_preview1 wasmrt_line
func lend(room unsafe.Pointer, size uint32)

func init() { lend(unsafe.Pointer(&line[0]), uint32(len(line))) }

func main() {}
