// An in-memory registry with the API of referrers, over TLS, with the packages of CUE.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"

	"cuelabs.dev/go/oci/ociregistry/ocimem"
	"cuelabs.dev/go/oci/ociregistry/ociserver"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Println(listener.Addr())
		err = http.ServeTLS(listener, ociserver.New(ocimem.New(), nil), os.Args[1], os.Args[1])
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
