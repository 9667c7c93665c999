//! The library's network for Python: `python/lasthop/network.py` is what people use.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use lasthop::{Datagram, DatagramId, Ecn, Fate, HostId, Network as Inner, Time, Wake};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// What has happened: its kind, and the host and the token of a timer.
type Event = (&'static str, u32, u64);
/// Time, host, from, to, ECN bits, number, copy, bytes.
type Arrival<'py> = (u64, u32, (String, u16), (String, u16), u8, u64, u32, Bound<'py, PyBytes>);
/// What became of a datagram: the word, when, ECN bits, copies, cause, link.
type Became = (&'static str, Option<u64>, Option<u8>, u32, Option<&'static str>, Option<String>);

fn refused(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn failed(error: &lasthop::Error) -> PyErr {
    match error {
        lasthop::Error::Scenario(error) => crate::scenario_error(error),
        error => refused(error),
    }
}

fn address(text: &str) -> PyResult<IpAddr> {
    text.parse().map_err(|_| refused(format!("{text:?} is no address of IPv4 or IPv6")))
}

/// See [`lasthop::Network`].
#[pyclass(module = "lasthop._native")]
pub(crate) struct Network {
    /// Gone when the run is over.
    inner: Option<Inner>,
    hosts: u32,
}

impl Network {
    fn of(made: Result<Inner, lasthop::Error>) -> PyResult<Network> {
        Ok(Network { inner: Some(made.map_err(|error| failed(&error))?), hosts: 0 })
    }

    fn inner(&mut self) -> PyResult<&mut Inner> {
        self.inner.as_mut().ok_or_else(|| refused("the run is over: finish() has its results"))
    }

    fn host(&self, host: u32) -> PyResult<HostId> {
        if host < self.hosts {
            return Ok(HostId::from_number(host));
        }
        Err(refused(format!("there is no host {host}: attach() returns the numbers of hosts")))
    }
}

#[pymethods]
impl Network {
    #[staticmethod]
    fn open(path: PathBuf, seed: u64) -> PyResult<Network> {
        Network::of(Inner::open(path, seed))
    }

    #[staticmethod]
    fn from_toml(text: &str, seed: u64) -> PyResult<Network> {
        Network::of(Inner::from_toml(text, seed))
    }

    #[staticmethod]
    fn from_json(text: &str, seed: u64) -> PyResult<Network> {
        Network::of(Inner::from_json(text, seed))
    }

    fn attach(&mut self, node: &str, at: &str) -> PyResult<u32> {
        let at = address(at)?;
        self.inner()?.attach(node, at).map_err(|error| failed(&error))?;
        self.hosts += 1;
        Ok(self.hosts - 1)
    }

    #[getter]
    fn now(&mut self) -> PyResult<u64> {
        Ok(self.inner()?.now().0)
    }

    fn damage(&mut self, cut: f64, flip: f64) -> PyResult<()> {
        self.inner()?.damage(cut, flip);
        Ok(())
    }

    fn keep_fates(&mut self) -> PyResult<()> {
        self.inner()?.keep_fates();
        Ok(())
    }

    #[pyo3(signature = (host, port, to, data, ecn, launch))]
    fn send(
        &mut self,
        host: u32,
        port: u16,
        to: (&str, u16),
        data: &[u8],
        ecn: u8,
        launch: Option<u64>,
    ) -> PyResult<u64> {
        let host = self.host(host)?;
        if ecn > 3 {
            return Err(refused(format!("ecn is 0, 1, 2 or 3, the two bits of the header, not {ecn}")));
        }
        let datagram = Datagram {
            source_port: port,
            to: SocketAddr::new(address(to.0)?, to.1),
            ecn: Ecn::from_bits(ecn),
            launch: launch.map(Time),
            data,
        };
        self.inner()?.send(host, datagram).map(|id| id.0).map_err(refused)
    }

    #[pyo3(signature = (host, token, at))]
    fn set_timer(&mut self, host: u32, token: u64, at: Option<u64>) -> PyResult<()> {
        let host = self.host(host)?;
        self.inner()?.set_timer(host, token, at.map(Time));
        Ok(())
    }

    #[pyo3(signature = (until))]
    fn next_event(&mut self, until: Option<u64>) -> PyResult<Event> {
        Ok(match self.inner()?.next_event(until.map_or(Time::MAX, Time)) {
            Wake::Arrivals => ("arrivals", 0, 0),
            Wake::Timer { host, token } => ("timer", host.number(), token),
            Wake::Until => ("until", 0, 0),
            Wake::End => ("end", 0, 0),
        })
    }

    fn recv<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Arrival<'py>>> {
        let end = |address: SocketAddr| (address.ip().to_string(), address.port());
        Ok(self.inner()?.recv().map(|arrival| {
            let lasthop::Arrival { at, host, from, to, ecn, id, copy, data } = arrival;
            let data = PyBytes::new(py, data);
            (at.0, host.number(), end(from), end(to), ecn.bits(), id.0, copy, data)
        }))
    }

    fn fate(&mut self, datagram: u64) -> PyResult<Option<Became>> {
        Ok(self.inner()?.fate(DatagramId(datagram)).map(|fate| match fate {
            Fate::UnderWay => ("under-way", None, None, 0, None, None),
            Fate::Delivered { at, ecn, copies } => {
                ("delivered", Some(at.0), Some(ecn.bits()), copies, None, None)
            }
            Fate::Lost { at, cause, link } => ("lost", Some(at.0), None, 0, Some(cause.name()), link),
        }))
    }

    fn entropy<'py>(
        &mut self,
        py: Python<'py>,
        host: u32,
        name: &str,
        count: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let host = self.host(host)?;
        let mut stream = self.inner()?.entropy(host, name);
        PyBytes::new_with(py, count, |bytes| {
            stream.fill(bytes);
            Ok(())
        })
    }

    /// Ends the run; its summary as JSON.
    fn finish(&mut self) -> PyResult<String> {
        let inner = self.inner.take().ok_or_else(|| refused("the run is over"))?;
        serde_json::to_string(&inner.finish().summary).map_err(refused)
    }
}
