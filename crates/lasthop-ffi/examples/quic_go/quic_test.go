// QUIC by quic-go over a network of lasthop.
//
//	CGO_CFLAGS=-I$PWD/../../include CGO_LDFLAGS=-L$LIBRARIES LD_LIBRARY_PATH=$LIBRARIES go test -v
//
// where LIBRARIES is the folder of liblasthop_c.so, as cargo build -p lasthop-ffi makes it.
package quicgo

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
)

const path = `
duration = "60 s"
[topology]
kind  = "graph"
nodes = ["server", "phone"]
[[topology.links]]
from  = "server"
to    = "phone"
rate  = "10 Mbit/s"
delay = "20 ms"
queue = { kind = "drop-tail", limit = "50 packets" }
`

func TestATransferFillsTheLink(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	synctest.Test(t, func(t *testing.T) {
		network, err := open(path, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer network.close()
		one := attach(network, "server", &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1000})
		other := attach(network, "phone", &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 443})
		stop := make(chan struct{})
		go drive(network, []*socket{one, other}, stop)

		key := ed25519.NewKeyFromSeed(make([]byte, 32))
		card := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Unix(1<<33, 0)}
		der, _ := x509.CreateCertificate(rand.Reader, card, card, key.Public(), key)
		root, _ := x509.ParseCertificate(der)
		roots := x509.NewCertPool()
		roots.AddCert(root)
		mine := &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"lasthop"}}
		certificates := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
		theirs := &tls.Config{Certificates: certificates, NextProtos: mine.NextProtos}

		opening, answering := &quic.Transport{Conn: one}, &quic.Transport{Conn: other}
		listener, err := answering.Listen(theirs, nil)
		if err != nil {
			t.Fatal(err)
		}
		received := make(chan int64)
		go func() {
			connection, _ := listener.Accept(context.Background())
			stream, _ := connection.AcceptUniStream(context.Background())
			read, _ := io.Copy(io.Discard, stream)
			received <- read
		}()
		connection, err := opening.Dial(context.Background(), other.local, mine, nil)
		if err != nil {
			t.Fatal(err)
		}
		up := time.Since(network.began)
		stream, _ := connection.OpenUniStream()
		stream.Write(make([]byte, 10_000_000))
		stream.Close()
		bytes := <-received
		took := time.Since(network.began)
		connection.CloseWithError(0, "")
		for _, closing := range []io.Closer{listener, opening, answering} {
			closing.Close()
		}
		close(stop)
		t.Logf("up after %v, %d bytes after %v", up, bytes, took)
		// A round trip is 40 ms, and what the first flights take to send; 10 Mbit/s less headers, slow start and losses.
		if up < 40*time.Millisecond || up > 46*time.Millisecond || bytes != 10_000_000 || took > 10*time.Second {
			t.Error("not as the link has it")
		}
	})
}
