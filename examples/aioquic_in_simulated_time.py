"""A download by aioquic, unmodified, over a scenario in simulated time.

Run it from the root of the tree: `.venv/bin/python examples/aioquic_in_simulated_time.py`. It needs aioquic
(`pip install aioquic`). Both ends live in this process. Times and lengths of all datagrams are the same in
every run of a seed.
"""

# mypy: ignore-errors

from __future__ import annotations

import datetime as dt
import sys

from aioquic.buffer import Buffer
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import pull_quic_header
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding

import lasthop as lh

SERVER, PHONE = ("10.0.0.1", 443), ("10.0.0.2", 5000)


def configurations() -> tuple[QuicConfiguration, QuicConfiguration]:
    """Return those of a client and of a server: signatures of Ed25519 all have one length."""
    key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, made, made.replace(year=2126))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    windows = {"max_data": 1 << 26, "max_stream_data": 1 << 26}
    client = QuicConfiguration(is_client=True, alpn_protocols=["x"], server_name="localhost", **windows)
    server = QuicConfiguration(is_client=False, alpn_protocols=["x"], **windows)
    server.certificate, server.private_key = builder.add_extension(names, critical=False).sign(key, None), key
    client.load_verify_locations(cadata=server.certificate.public_bytes(Encoding.PEM))
    return client, server


class Download:
    """The phone fetches a file from the server."""

    def __init__(self, network: lh.Network, size: int) -> None:
        self.network = network
        self.phone, self.server = (
            self.network.attach("phone", PHONE[0]),
            self.network.attach("server", SERVER[0]),
        )
        client, self.of_server = configurations()
        self.ends = {self.phone: QuicConnection(configuration=client)}
        self.size, self.got, self.done = size, 0, None
        self.ends[self.phone].connect(SERVER, now=0.0)

    @property
    def now(self) -> float:
        """The time as aioquic wants it, in seconds."""
        return self.network.now / 1e9

    def act(self, host: int) -> None:
        """Let the application read and write."""
        end = self.ends[host]
        while (event := end.next_event()) is not None:
            if isinstance(event, events.HandshakeCompleted) and host == self.phone:
                end.send_stream_data(end.get_next_available_stream_id(), b"GET", end_stream=True)
            elif isinstance(event, events.StreamDataReceived) and host == self.server:
                end.send_stream_data(event.stream_id, bytes(self.size), end_stream=True)
            elif isinstance(event, events.StreamDataReceived):
                self.got += len(event.data)
                self.done = self.now if event.end_stream else self.done

    def send(self, host: int) -> None:
        """Send what an end wants to send, and set its timer."""
        port, peer = (PHONE[1], SERVER) if host == self.phone else (SERVER[1], PHONE)
        for data, _ in self.ends[host].datagrams_to_send(self.now):
            self.network.send(host, port, peer, data)
        timer = self.ends[host].get_timer()
        # The nanosecond behind it: times that went through a float may lie before the one that was asked for.
        at = None if timer is None else max(self.network.now, int(timer * 1e9) + 1)
        self.network.set_timer(host, 0, at)

    def receive(self, arrival: lh.network.Arrival) -> None:
        """Give a datagram to its end; the first one makes the server."""
        if arrival.host not in self.ends:
            first = pull_quic_header(Buffer(data=arrival.data), host_cid_length=8).destination_cid
            self.ends[arrival.host] = QuicConnection(
                configuration=self.of_server, original_destination_connection_id=first
            )
        self.ends[arrival.host].receive_datagram(arrival.data, arrival.source, self.now)

    def run(self) -> float | None:
        """Return the second in which the phone has the file; `None` if the run ends before."""
        while self.done is None:
            for host in self.ends:
                self.act(host)
                self.send(host)
            event = self.network.next_event()
            if event.kind == "end":
                break
            if event.kind == "timer":
                self.ends[event.host].handle_timer(self.now)
            while (arrival := self.network.recv()) is not None:
                self.receive(arrival)
        return self.done


if __name__ == "__main__":
    ride = Download(lh.Network.load(*(sys.argv[1:2] or ["scenarios/train-ride.toml"])), 2_000_000)
    print(f"2 MB by aioquic, beside what else the scenario has, after {ride.run()} s")
