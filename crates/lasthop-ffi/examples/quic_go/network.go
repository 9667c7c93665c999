// Package quicgo puts sockets of Go over a network of lasthop, in the virtual time of testing/synctest.
package quicgo

// #cgo LDFLAGS: -llasthop_c
// #include <stdlib.h>
// #include "lasthop.h"
import "C"

import (
	"errors"
	"net"
	"sync"
	"testing/synctest"
	"time"
	"unsafe"
)

// tick is how often the network is asked what has arrived: a datagram may be that late.
const tick = 50 * time.Microsecond

// world is the network. One goroutine at a time may use it.
type world struct {
	sync.Mutex
	c     *C.lasthop_network
	began time.Time
}

// open makes the network of a scenario.
func open(toml string, seed uint64) (*world, error) {
	scenario, why := C.CString(toml), make([]byte, 512)
	defer C.free(unsafe.Pointer(scenario))
	opened := C.lasthop_open(scenario, C.uint64_t(seed), (*C.char)(unsafe.Pointer(&why[0])), C.size_t(len(why)))
	if opened == nil {
		return nil, errors.New(C.GoString((*C.char)(unsafe.Pointer(&why[0]))))
	}
	return &world{c: opened, began: time.Now()}, nil
}

func (w *world) close() { C.lasthop_close(w.c) }

func (w *world) now() C.uint64_t { return C.uint64_t(time.Since(w.began)) }

type datagram struct {
	data []byte
	from net.Addr
}

// socket is a net.PacketConn at a host of the network.
type socket struct {
	network *world
	host    C.uint32_t
	local   *net.UDPAddr
	arrived chan datagram
	closed  chan struct{}
	once    sync.Once
}

func address(of *net.UDPAddr) C.lasthop_address {
	made := C.lasthop_address{port: C.uint16_t(of.Port), version: 4}
	for number, value := range of.IP.To4() {
		made.ip[number] = C.uint8_t(value)
	}
	return made
}

func attach(network *world, node string, local *net.UDPAddr) *socket {
	name, at := C.CString(node), address(local)
	defer C.free(unsafe.Pointer(name))
	host := C.lasthop_attach(network.c, name, &at)
	return &socket{
		network: network,
		host:    C.uint32_t(host),
		local:   local,
		arrived: make(chan datagram, 4096),
		closed:  make(chan struct{}),
	}
}

func (s *socket) ReadFrom(buffer []byte) (int, net.Addr, error) {
	select {
	case one := <-s.arrived:
		return copy(buffer, one.data), one.from, nil
	case <-s.closed:
		return 0, nil, net.ErrClosed
	}
}

func (s *socket) WriteTo(data []byte, to net.Addr) (int, error) {
	at := address(to.(*net.UDPAddr))
	port := C.uint16_t(s.local.Port)
	s.network.Lock()
	defer s.network.Unlock()
	// It leaves now: the network stands at the last tick. What is longer than the path takes is refused: a probe.
	C.lasthop_send(s.network.c, s.host, port, &at, 0, s.network.now(), (*C.uint8_t)(&data[0]), C.size_t(len(data)))
	return len(data), nil
}

func (s *socket) Close() error                     { s.once.Do(func() { close(s.closed) }); return nil }
func (s *socket) LocalAddr() net.Addr              { return s.local }
func (s *socket) SetDeadline(time.Time) error      { return nil }
func (s *socket) SetReadDeadline(time.Time) error  { return s.Close() } // only when the transport closes
func (s *socket) SetWriteDeadline(time.Time) error { return nil }
func (s *socket) SetReadBuffer(int) error          { return nil }
func (s *socket) SetWriteBuffer(int) error         { return nil }

// drive moves the network with the clock of the bubble, and hands out what has arrived.
func drive(network *world, sockets []*socket, stop chan struct{}) {
	buffer := make([]byte, 2048)
	for {
		select {
		case <-stop:
			return
		case <-time.After(tick):
		}
		// Whatever else happens at this instant has happened.
		synctest.Wait()
		network.Lock()
		var event C.lasthop_event
		for C.lasthop_next(network.c, network.now(), &event) == C.LASTHOP_ARRIVALS {
			var arrival C.lasthop_arrival
			for C.lasthop_recv(network.c, &arrival, (*C.uint8_t)(&buffer[0]), C.size_t(len(buffer))) == 1 {
				from := sockets[1-arrival.host].local
				sockets[arrival.host].arrived <- datagram{append([]byte(nil), buffer[:arrival.length]...), from}
			}
		}
		network.Unlock()
	}
}
