package main

import (
	"fmt"
	"unsafe"
)

// wasi:http and wasi:io in the canonical ABI.

const https, getOK = 1, 200

type handleResult struct {
	failed uint8
	handle uint32
}

// result<own<future-incoming-response>, error-code>; an error-code has a u64, and so 8 bytes of alignment.
type sent struct {
	failed uint8
	_      [7]byte
	future uint32 // in the low byte: the case of error-code
	_      [28]byte
}

// option<result<result<own<incoming-response>, error-code>>>
type arrived struct {
	some   uint8
	_      [7]byte
	taken  uint8
	_      [7]byte
	result sent
}

// result<list<u8>, stream-error>
type chunk struct {
	failed uint8
	data   text // with an error: its case, and the error's handle
}

//go:wasmimport wasi:http/types@0.2.0 [constructor]fields
func newFields() uint32

//go:wasmimport wasi:http/types@0.2.0 [constructor]outgoing-request
func newRequest(fields uint32) uint32

//go:wasmimport wasi:http/types@0.2.0 [method]outgoing-request.set-scheme
func setScheme(request, some, scheme uint32, other unsafe.Pointer, otherLen uint32) uint32

//go:wasmimport wasi:http/types@0.2.0 [method]outgoing-request.set-authority
func setAuthority(request, some uint32, at unsafe.Pointer, size uint32) uint32

//go:wasmimport wasi:http/types@0.2.0 [method]outgoing-request.set-path-with-query
func setPath(request, some uint32, at unsafe.Pointer, size uint32) uint32

//go:wasmimport wasi:http/outgoing-handler@0.2.0 handle
func handle(request, some, options uint32, out unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.0 [method]future-incoming-response.subscribe
func subscribe(future uint32) uint32

//go:wasmimport wasi:io/poll@0.2.0 [method]pollable.block
func block(pollable uint32)

//go:wasmimport wasi:http/types@0.2.0 [method]future-incoming-response.get
func response(future uint32, out unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.0 [method]incoming-response.status
func status(response uint32) uint32

//go:wasmimport wasi:http/types@0.2.0 [method]incoming-response.consume
func consume(response uint32, out unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.0 [method]incoming-body.stream
func stream(body uint32, out unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.0 [method]input-stream.blocking-read
func read(stream uint32, size uint64, out unsafe.Pointer)

func get(authority, path string) ([]byte, error) {
	request := newRequest(newFields())
	refused := setScheme(request, 1, https, nil, 0)
	refused |= setAuthority(request, 1, unsafe.Pointer(unsafe.StringData(authority)), uint32(len(authority)))
	refused |= setPath(request, 1, unsafe.Pointer(unsafe.StringData(path)), uint32(len(path)))
	if refused != 0 {
		return nil, fmt.Errorf("not a URL")
	}
	var future sent
	handle(request, 0, 0, unsafe.Pointer(&future))
	if future.failed != 0 {
		return nil, fmt.Errorf("request not sent: error-code %d", uint8(future.future))
	}
	block(subscribe(future.future))
	var got arrived
	response(future.future, unsafe.Pointer(&got))
	if got.result.failed != 0 {
		return nil, fmt.Errorf("no response: error-code %d", uint8(got.result.future))
	}
	if code := status(got.result.future); code != getOK {
		return nil, fmt.Errorf("status %d", code)
	}
	return readBody(got.result.future)
}

func readBody(response uint32) ([]byte, error) {
	var body, opened handleResult
	consume(response, unsafe.Pointer(&body))
	stream(body.handle, unsafe.Pointer(&opened))
	var all []byte
	for {
		var next chunk
		read(opened.handle, 65536, unsafe.Pointer(&next))
		if next.failed != 0 {
			if closed := uint8(uintptr(unsafe.Pointer(next.data.at))); closed == 1 {
				return all, nil
			}
			return nil, fmt.Errorf("the body was cut off")
		}
		all = append(all, unsafe.Slice(next.data.at, next.data.len)...)
	}
}
