//! The network of the crate `lasthop` for C: `include/lasthop.h` says what each function does. Nothing is decided here.
//! A panic never crosses the border: it becomes an error.

#![expect(unsafe_code, reason = "pointers from C; the header says what they must be")]

use std::ffi::{CStr, CString, c_char};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};

use lasthop::{Datagram, DatagramId, Ecn, Fate, HostId, Network, Time, Wake};

/// See `lasthop_network`.
pub struct Handle {
    network: Option<Network>,
    hosts: u32,
    error: CString,
    results: String,
}

/// See `lasthop_address`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Address {
    ip: [u8; 16],
    port: u16,
    version: u8,
    zero: u8,
}

/// See `lasthop_event`.
#[repr(C)]
pub struct Event {
    token: u64,
    host: u32,
    kind: u32,
}

/// See `lasthop_arrival`.
#[repr(C)]
pub struct Arrival {
    at: u64,
    datagram: u64,
    length: u64,
    from: Address,
    to: Address,
    host: u32,
    copy: u32,
    ecn: u32,
    zero: u32,
}

// The example in C asserts the same of the header.
const _: () = assert!(size_of::<Address>() == 20 && size_of::<Event>() == 16 && size_of::<Arrival>() == 80);

impl Address {
    fn ip(&self) -> Result<IpAddr, String> {
        match self.version {
            4 => Ok(IpAddr::V4(Ipv4Addr::new(self.ip[0], self.ip[1], self.ip[2], self.ip[3]))),
            6 => Ok(IpAddr::V6(Ipv6Addr::from(self.ip))),
            version => Err(format!("the version of an address is 4 or 6, not {version}")),
        }
    }

    fn of(address: SocketAddr) -> Address {
        let mut ip = [0; 16];
        let version = match address.ip() {
            IpAddr::V4(own) => {
                ip[..4].copy_from_slice(&own.octets());
                4
            }
            IpAddr::V6(own) => {
                ip = own.octets();
                6
            }
        };
        Address { ip, port: address.port(), version, zero: 0 }
    }
}

impl Handle {
    fn network(&mut self) -> Result<&mut Network, String> {
        self.network.as_mut().ok_or_else(|| "the run is over".to_owned())
    }

    fn host(&self, host: u32) -> Result<HostId, String> {
        if host < self.hosts {
            Ok(HostId::from_number(host))
        } else {
            Err(format!("there is no host {host}"))
        }
    }

    fn fail(&mut self, why: &str) {
        self.error = CString::new(why.replace('\0', " ")).unwrap_or_default();
    }
}

/// Calls `act`; what goes wrong is -1 and the network's error.
///
/// # Safety
///
/// `handle` is null or came from [`lasthop_open`].
unsafe fn guarded(handle: *mut Handle, act: impl FnOnce(&mut Handle) -> Result<i64, String>) -> i64 {
    // SAFETY: as the caller promises.
    let Some(handle) = (unsafe { handle.as_mut() }) else { return -1 };
    match catch_unwind(AssertUnwindSafe(|| act(handle))) {
        Ok(Ok(value)) => value,
        Ok(Err(why)) => {
            handle.fail(&why);
            -1
        }
        Err(_) => {
            handle.network = None;
            handle.fail("the network failed in itself; it cannot be used any more");
            -1
        }
    }
}

/// The text at `text`.
///
/// # Safety
///
/// `text` is null or ends with a zero.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, String> {
    if text.is_null() {
        return Err("a text is missing".to_owned());
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| "a text is not UTF-8".to_owned())
}

/// An error unless there are `length` bytes at `data`, as far as that can be told.
fn there(data: *const u8, length: usize) -> Result<(), String> {
    if length > isize::MAX as usize {
        return Err(format!("{length} bytes are more than there can be"));
    }
    if data.is_null() && length > 0 {
        return Err(format!("the data is missing: {length} bytes at a null pointer"));
    }
    Ok(())
}

/// Writes `from`, cut, and a zero to `to`.
///
/// # Safety
///
/// `to` is null or has room for `length` bytes.
unsafe fn write(from: &str, to: *mut c_char, room: usize) {
    if to.is_null() || room == 0 {
        return;
    }
    let length = from.len().min(room - 1);
    // SAFETY: `length` and a zero fit, as the caller promises; both do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(from.as_ptr().cast(), to, length);
        *to.add(length) = 0;
    }
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_open(
    scenario: *const c_char,
    seed: u64,
    why: *mut c_char,
    room: usize,
) -> *mut Handle {
    let made = catch_unwind(|| {
        // SAFETY: the header asks for a text that ends with a zero.
        let scenario = unsafe { text(scenario) }?;
        let made = if scenario.contains('\n') {
            Network::from_toml(scenario, seed)
        } else {
            Network::open(scenario, seed)
        };
        made.map_err(|error| error.to_string())
    });
    match made.unwrap_or_else(|_| Err("the network failed in itself".to_owned())) {
        Ok(network) => Box::into_raw(Box::new(Handle {
            network: Some(network),
            hosts: 0,
            error: CString::default(),
            results: String::new(),
        })),
        Err(error) => {
            // SAFETY: the header asks for this room.
            unsafe { write(&error, why, room) };
            std::ptr::null_mut()
        }
    }
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_close(network: *mut Handle) {
    if !network.is_null() {
        // SAFETY: it came from `lasthop_open`, and is closed once.
        drop(unsafe { Box::from_raw(network) });
    }
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_error(network: *const Handle) -> *const c_char {
    // SAFETY: it came from `lasthop_open`.
    unsafe { network.as_ref() }.map_or(c"the network is missing".as_ptr(), |handle| handle.error.as_ptr())
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_attach(
    network: *mut Handle,
    node: *const c_char,
    address: *const Address,
) -> i64 {
    let attach = |handle: &mut Handle| {
        // SAFETY: the header asks for a text and an address.
        let (node, address) = unsafe { (text(node)?, address.as_ref()) };
        let ip = address.ok_or("the address is missing")?.ip()?;
        handle.network()?.attach(node, ip).map_err(|error| error.to_string())?;
        handle.hosts += 1;
        Ok(i64::from(handle.hosts - 1))
    };
    // SAFETY: it came from `lasthop_open`.
    unsafe { guarded(network, attach) }
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_now(network: *const Handle) -> u64 {
    // SAFETY: it came from `lasthop_open`.
    let network = unsafe { network.as_ref() }.and_then(|handle| handle.network.as_ref());
    network.map_or(u64::MAX, |network| network.now().0)
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_send(
    network: *mut Handle,
    host: u32,
    port: u16,
    to: *const Address,
    ecn: u32,
    launch: u64,
    data: *const u8,
    length: usize,
) -> i64 {
    let send = |handle: &mut Handle| {
        let host = handle.host(host)?;
        there(data, length)?;
        // SAFETY: the header asks for an address, and for `length` bytes at `data`.
        let (to, data) = unsafe {
            (to.as_ref(), if length == 0 { &[][..] } else { std::slice::from_raw_parts(data, length) })
        };
        let to = to.ok_or("the address is missing")?;
        if ecn > 3 {
            return Err(format!("ecn is 0, 1, 2 or 3, not {ecn}"));
        }
        let to = SocketAddr::new(to.ip()?, to.port);
        let datagram = Datagram {
            source_port: port,
            to,
            ecn: Ecn::from_bits(ecn as u8),
            launch: Some(Time(launch)),
            data,
        };
        let sent = handle.network()?.send(host, datagram).map_err(|error| error.to_string())?;
        Ok(sent.0 as i64)
    };
    // SAFETY: it came from `lasthop_open`.
    unsafe { guarded(network, send) }
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_timer(network: *mut Handle, host: u32, token: u64, at: u64) -> i32 {
    let set = |handle: &mut Handle| {
        let host = handle.host(host)?;
        handle.network()?.set_timer(host, token, (at != u64::MAX).then_some(Time(at)));
        Ok(0)
    };
    // SAFETY: it came from `lasthop_open`.
    unsafe { guarded(network, set) as i32 }
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_next(network: *mut Handle, until: u64, event: *mut Event) -> i32 {
    let next = |handle: &mut Handle| {
        let (kind, host, token) = match handle.network()?.next_event(Time(until)) {
            Wake::Arrivals => (0, 0, 0),
            Wake::Timer { host, token } => (1, host.number(), token),
            Wake::Until => (2, 0, 0),
            Wake::End => (3, 0, 0),
        };
        // SAFETY: the header asks for an event.
        if let Some(event) = unsafe { event.as_mut() } {
            *event = Event { token, host, kind };
        }
        Ok(i64::from(kind))
    };
    // SAFETY: it came from `lasthop_open`.
    unsafe { guarded(network, next) as i32 }
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_recv(
    network: *mut Handle,
    arrival: *mut Arrival,
    data: *mut u8,
    room: usize,
) -> i32 {
    let receive = |handle: &mut Handle| {
        there(data, room)?;
        let Some(came) = handle.network()?.recv() else { return Ok(0) };
        let length = came.data.len().min(room);
        // SAFETY: the header asks for an arrival and for so much room.
        unsafe {
            if length > 0 {
                std::ptr::copy_nonoverlapping(came.data.as_ptr(), data, length);
            }
            if let Some(arrival) = arrival.as_mut() {
                *arrival = Arrival {
                    at: came.at.0,
                    datagram: came.id.0,
                    length: came.data.len() as u64,
                    from: Address::of(came.from),
                    to: Address::of(came.to),
                    host: came.host.number(),
                    copy: came.copy,
                    ecn: came.ecn.bits().into(),
                    zero: 0,
                };
            }
        }
        Ok(1)
    };
    // SAFETY: it came from `lasthop_open`.
    unsafe { guarded(network, receive) as i32 }
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_keep_fates(network: *mut Handle) -> i32 {
    let keep = |handle: &mut Handle| {
        handle.network()?.keep_fates();
        Ok(0)
    };
    // SAFETY: it came from `lasthop_open`.
    unsafe { guarded(network, keep) as i32 }
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_fate(network: *mut Handle, datagram: u64, at: *mut u64) -> i32 {
    let tell = |handle: &mut Handle| {
        let (kind, time) = match handle.network()?.fate(DatagramId(datagram)) {
            Some(Fate::UnderWay) => (0, u64::MAX),
            Some(Fate::Delivered { at, .. }) => (1, at.0),
            Some(Fate::Lost { at, .. }) => (2, at.0),
            None => (3, u64::MAX),
        };
        // SAFETY: the header asks for a place of a time.
        if let Some(at) = unsafe { at.as_mut() } {
            *at = time;
        }
        Ok(kind)
    };
    // SAFETY: it came from `lasthop_open`.
    unsafe { guarded(network, tell) as i32 }
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_entropy(
    network: *mut Handle,
    host: u32,
    name: *const c_char,
    bytes: *mut u8,
    length: usize,
) -> i32 {
    let fill = |handle: &mut Handle| {
        let host = handle.host(host)?;
        there(bytes, length)?;
        // SAFETY: the header asks for a text.
        let mut stream = handle.network()?.entropy(host, unsafe { text(name) }?);
        if length > 0 {
            // SAFETY: the header asks for room for `length` bytes.
            unsafe { std::ptr::write_bytes(bytes, 0, length) };
            // SAFETY: as above; they have just been written.
            stream.fill(unsafe { std::slice::from_raw_parts_mut(bytes, length) });
        }
        Ok(0)
    };
    // SAFETY: it came from `lasthop_open`.
    unsafe { guarded(network, fill) as i32 }
}

/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lasthop_results(network: *mut Handle, json: *mut c_char, room: usize) -> i64 {
    let tell = |handle: &mut Handle| {
        if let Some(network) = handle.network.take() {
            let summary = network.finish().summary;
            handle.results = serde_json::to_string(&summary).map_err(|error| error.to_string())?;
        }
        // SAFETY: the header asks for this room.
        unsafe { write(&handle.results, json, room) };
        Ok(handle.results.len() as i64)
    };
    // SAFETY: it came from `lasthop_open`.
    unsafe { guarded(network, tell) }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    const SCENARIO: &CStr = c"duration = \"1 s\"
[topology]
kind = \"graph\"
nodes = [\"a\", \"b\"]
links = [{ from = \"a\", to = \"b\", rate = \"1 Mbit/s\", delay = \"1 ms\" }]
";

    /// Bytes that are asked for or given at no place are an error with its reason; the network goes on.
    #[test]
    fn missing_bytes_are_told() {
        let address = |last: u8| Address::of(SocketAddr::from(([10, 0, 0, last], 1)));
        // SAFETY: pointers are null where that is the test, and valid elsewhere.
        unsafe {
            let network = lasthop_open(SCENARIO.as_ptr(), 1, ptr::null_mut(), 0);
            assert!(!network.is_null());
            for (node, last) in [(c"a", 1), (c"b", 2)] {
                assert_eq!(lasthop_attach(network, node.as_ptr(), &address(last)), i64::from(last) - 1);
            }
            let send = |data: *const u8, length| lasthop_send(network, 0, 1, &address(2), 0, 0, data, length);
            let told = |said: &str| assert_eq!(CStr::from_ptr(lasthop_error(network)).to_str(), Ok(said));
            assert_eq!(send(ptr::null(), 5), -1);
            told("the data is missing: 5 bytes at a null pointer");
            assert_eq!(send([7].as_ptr(), usize::MAX), -1);
            told(&format!("{} bytes are more than there can be", usize::MAX));
            assert_eq!(lasthop_entropy(network, 0, c"x".as_ptr(), ptr::null_mut(), 5), -1);
            assert!(send([7].as_ptr(), 1) >= 0);
            assert_eq!(lasthop_next(network, u64::MAX, ptr::null_mut()), 0);
            assert_eq!(lasthop_recv(network, ptr::null_mut(), ptr::null_mut(), 5), -1);
            let mut data = [0];
            assert_eq!(lasthop_recv(network, ptr::null_mut(), data.as_mut_ptr(), 1), 1, "it is still there");
            assert_eq!(data, [7]);
            lasthop_close(network);
        }
    }
}
