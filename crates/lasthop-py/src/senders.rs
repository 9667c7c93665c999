//! Senders written in Python: a class becomes a controller that the engine calls like any other.
//!
//! A thread that runs a scenario does not hold the interpreter's lock; it takes it for each call and gives it back.
//! What goes wrong in Python ends the run: the first failure is kept, the engine is asked to stop, and until it does
//! the sender stands still.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lasthop_cc::{
    AckSample, Arrival, CongestionControl, ControllerConfig, External, ExternalConfig, Factory, LossKind,
    LossSample, Needs, Param, RateSample, RecoveryKind, Reduction, Start, Window, intern,
};
use lasthop_core::time::{Span, Time};
use lasthop_net::plan::Recovery;
use lasthop_net::plan::{Plan, Transport};
use lasthop_sim::run::Progress;
use lasthop_sim::scenario::OwnTransport;
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::RunError;

/// Parameters of a constructor lie within this.
const LARGEST_PARAMETER: f64 = 1e15;

/// Base class of a sender written in Python; it holds the window.
///
/// The engine sets the window before each call and reads it after the call: a method may read and set it at any time.
#[pyclass(subclass, frozen, module = "lasthop")]
pub(crate) struct Sender {
    cwnd: Number,
    ssthresh: Number,
}

#[pymethods]
impl Sender {
    /// Takes whatever the constructor of the class takes.
    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Sender {
        let _ = (args, kwargs);
        Sender { cwnd: Number::new(1.0), ssthresh: Number::new(f64::INFINITY) }
    }

    /// What a copy takes over: the attributes of the class. The window is set before each call anyway.
    fn __getstate__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.getattr("__dict__")
    }

    /// Congestion window in segments; the sender uses its integer part, and at least one segment.
    #[getter]
    fn cwnd(&self) -> f64 {
        self.cwnd.load()
    }

    #[setter]
    fn set_cwnd(&self, segments: f64) -> PyResult<()> {
        if !(0.0..=f64::MAX).contains(&segments) {
            let message = format!("cwnd cannot be {segments}: it is a number of segments, not negative");
            return Err(PyValueError::new_err(message));
        }
        self.cwnd.store(segments);
        Ok(())
    }

    /// Slow start threshold in segments; infinite while unknown.
    #[getter]
    fn ssthresh(&self) -> f64 {
        self.ssthresh.load()
    }

    #[setter]
    fn set_ssthresh(&self, segments: f64) -> PyResult<()> {
        if !(0.0..=f64::INFINITY).contains(&segments) {
            let message = format!("ssthresh cannot be {segments}: it is a number of segments, not negative");
            return Err(PyValueError::new_err(message));
        }
        self.ssthresh.store(segments);
        Ok(())
    }
}

/// A number that Python and the engine share. Only one of them is at work at any time.
struct Number(AtomicU64);

impl Number {
    fn new(value: f64) -> Number {
        Number(AtomicU64::new(value.to_bits()))
    }

    fn load(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn store(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

/// An ACK of new data.
#[pyclass(frozen, get_all, module = "lasthop.senders")]
pub(crate) struct Ack {
    /// Simulated time at which the ACK arrived.
    now_s: f64,
    /// RTT of the newest segment that it covers; `None` if that segment was sent more than once (Karn's rule).
    rtt_s: Option<f64>,
    /// Smoothed RTT; zero before the first sample.
    srtt_s: f64,
    /// Segments that it newly acknowledges.
    acked: u32,
    /// First unacknowledged byte.
    una: u64,
    /// Next byte to be sent.
    next: u64,
    /// Payload of a full segment in bytes.
    mss: u32,
    /// Whether the window may grow: not during recovery, and not while the application limits the sender.
    may_grow: bool,
}

/// Any ACK, new or duplicate, before the sender has acted on it.
#[pyclass(frozen, get_all, module = "lasthop.senders")]
pub(crate) struct AnyAck {
    /// Simulated time at which the ACK arrived.
    now_s: f64,
    /// Smoothed RTT; zero before the first sample.
    srtt_s: f64,
    /// First unacknowledged byte before this ACK.
    una: u64,
    /// Byte up to which it acknowledges; equal to `una` for a duplicate ACK.
    ack: u64,
    /// Next byte to be sent.
    next: u64,
    /// Payload of a full segment in bytes.
    mss: u32,
    /// Whether it carries ECN-Echo (RFC 3168).
    ece: bool,
}

/// What a sender knows at a loss, a timeout or a congestion mark.
#[pyclass(frozen, get_all, module = "lasthop.senders")]
pub(crate) struct Loss {
    /// Simulated time of the reduction.
    now_s: f64,
    /// Segments in flight, from which the reduction starts.
    flight: f64,
    /// Whether the lost segment had been sent more than once.
    retransmitted: bool,
}

/// A delivery rate sample, taken when an ACK has been processed.
#[pyclass(frozen, get_all, module = "lasthop.senders")]
pub(crate) struct Rate {
    /// Simulated time at which the ACK arrived.
    now_s: f64,
    /// Segments delivered per second, if a sample could be taken.
    segments_per_s: Option<f64>,
    /// Whether the sender had nothing to send during the interval.
    app_limited: bool,
    /// Segments delivered when the newest segment that this ACK delivers had been sent.
    prior_delivered: u64,
    /// Segments delivered so far.
    delivered: u64,
    /// Segments that this ACK newly delivered.
    acked: u32,
    /// Segments that were found lost on this ACK.
    lost: u32,
    /// Segments in flight after this ACK.
    flight: u32,
    /// RTT sample of this ACK, if there is one.
    rtt_s: Option<f64>,
    /// Smoothed RTT; zero before the first sample.
    srtt_s: f64,
    /// `"fast"` during fast recovery, `"timeout"` after a timeout, `None` outside of recovery.
    recovery: Option<&'static str>,
}

/// A signal from another layer: the link, the radio, the mobile host, the base station.
///
/// `kind` decides which of the other fields have a value; the others are `None`.
#[pyclass(frozen, get_all, module = "lasthop.senders")]
#[derive(Default)]
pub(crate) struct Signal {
    /// Simulated time of the signal.
    now_s: f64,
    /// `link-ack`, `link-retry`, `link-drop`, `link-timeout`, `mac-discard`, `rx-rssi`, `link-fading`, `link-up`,
    /// `handoff-done`, `ebsn` or `eln`.
    kind: &'static str,
    /// First byte of the segment concerned.
    seq: Option<u64>,
    /// One past the last byte of that segment.
    end: Option<u64>,
    /// Transmission attempts of the link for that segment.
    attempts: Option<u32>,
    /// Retransmissions that the link needed for that segment.
    retransmissions: Option<u32>,
    /// Delay added by those retransmissions.
    delay_s: Option<f64>,
    /// Retransmission timeout of the link.
    timeout_s: Option<f64>,
    /// Time until the link goes down.
    warning_s: Option<f64>,
    /// Frames that a MAC discarded.
    frames: Option<u32>,
    /// Received signal strength of a frame.
    rssi_dbm: Option<f64>,
    /// Length of that frame.
    frame_bytes: Option<u32>,
}

/// An unknown field of these classes is answered with the fields that exist.
macro_rules! fields_are_named {
    ($($class:ident),*) => {$(
        #[pymethods]
        impl $class {
            fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Py<PyAny>> {
                Err(unknown_field(slf.as_any(), name)?)
            }
        }
    )*};
}

fields_are_named!(Ack, AnyAck, Loss, Rate, Signal);

/// The error for a field that an object does not have.
fn unknown_field(object: &Bound<'_, PyAny>, name: &str) -> PyResult<PyErr> {
    let class = object.get_type();
    let mut fields = class.dir()?.extract::<Vec<String>>()?;
    fields.retain(|field| !field.starts_with('_'));
    let known = fields.join(", ");
    let message = format!("{} has no field '{name}'; its fields are {known}", class.name()?);
    Ok(PyAttributeError::new_err(message))
}

impl Signal {
    fn new(signal: &lasthop_cc::Signal, now: Time) -> Signal {
        use lasthop_cc::Signal as Said;
        let said = |kind| Signal { now_s: now.seconds(), kind, ..Signal::default() };
        match *signal {
            Said::LinkAck { seq, end, retransmissions, delay } => Signal {
                seq: Some(seq),
                end: Some(end),
                retransmissions: Some(retransmissions),
                delay_s: Some(delay.seconds()),
                ..said("link-ack")
            },
            Said::LinkRetry { seq, end, attempts } => {
                Signal { seq: Some(seq), end: Some(end), attempts: Some(attempts), ..said("link-retry") }
            }
            Said::LinkDrop { seq, end, attempts } => {
                Signal { seq: Some(seq), end: Some(end), attempts: Some(attempts), ..said("link-drop") }
            }
            Said::LinkTimeout { timeout } => {
                Signal { timeout_s: Some(timeout.seconds()), ..said("link-timeout") }
            }
            Said::MacDiscard { count } => Signal { frames: Some(count), ..said("mac-discard") },
            Said::RxRssi { dbm, bytes } => {
                Signal { rssi_dbm: Some(dbm), frame_bytes: Some(bytes), ..said("rx-rssi") }
            }
            Said::LinkFading { warning } => {
                Signal { warning_s: Some(warning.seconds()), ..said("link-fading") }
            }
            Said::LinkUp => said("link-up"),
            Said::HandoffDone => said("handoff-done"),
            Said::Ebsn { seq } => Signal { seq: Some(seq), ..said("ebsn") },
            Said::Eln => said("eln"),
        }
    }
}

/// The methods that a class may have beside `on_ack` and `on_loss`.
#[derive(Clone, Copy, Debug, Default)]
struct Hooks {
    start: bool,
    any_ack: bool,
    rate: bool,
    timeout: bool,
    ecn: bool,
    idle: bool,
    pacing: bool,
    signal: bool,
}

/// How the value of a parameter comes to the constructor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Float,
    Integer,
    Switch,
}

#[derive(Debug)]
struct Class {
    object: Py<PyType>,
    /// Its name, for messages.
    shown: String,
    /// The name of the transport.
    transport: String,
    hooks: Hooks,
    parameters: Vec<(&'static str, Shape)>,
}

/// A class that scenarios may name as a transport.
#[pyclass(frozen)]
pub(crate) struct SenderClass {
    class: Arc<Class>,
    own: OwnTransport,
}

#[pymethods]
impl SenderClass {
    /// `parameters` are names and defaults of the constructor; whether a default is a switch, a whole or a real
    /// number decides what the constructor is given.
    #[new]
    #[pyo3(signature = (name, class_, summary, recovery, methods, parameters, classifies))]
    #[expect(clippy::needless_pass_by_value, reason = "lists from Python arrive as vectors of their own")]
    fn new(
        name: &str,
        class_: &Bound<'_, PyType>,
        summary: &str,
        recovery: Option<&str>,
        methods: Vec<String>,
        parameters: Vec<(String, Bound<'_, PyAny>)>,
        classifies: bool,
    ) -> PyResult<SenderClass> {
        let has = |method: &str| methods.iter().any(|one| one == method);
        let hooks = Hooks {
            start: has("on_start"),
            any_ack: has("on_any_ack"),
            rate: has("on_rate"),
            timeout: has("on_timeout"),
            ecn: has("on_ecn"),
            idle: has("on_idle"),
            pacing: has("pacing_rate"),
            signal: has("on_signal"),
        };
        let mut params = Vec::with_capacity(parameters.len());
        let mut shapes = Vec::with_capacity(parameters.len());
        for (name, default) in &parameters {
            let shape = if default.extract::<bool>().is_ok() {
                Shape::Switch
            } else if default.extract::<i64>().is_ok() {
                Shape::Integer
            } else {
                Shape::Float
            };
            let value = if shape == Shape::Switch {
                f64::from(u8::from(default.extract::<bool>()?))
            } else {
                default.extract::<f64>()?
            };
            let switch = shape == Shape::Switch;
            let (min, max) = if switch { (0.0, 1.0) } else { (-LARGEST_PARAMETER, LARGEST_PARAMETER) };
            let name = intern(name);
            params.push(Param { name, help: "", default: value, min, max, switch, choices: &[] });
            shapes.push((name, shape));
        }
        let shown = class_.name()?.to_string();
        let class = Arc::new(Class {
            object: class_.clone().unbind(),
            shown,
            transport: name.to_owned(),
            hooks,
            parameters: shapes,
        });
        let needs = Needs {
            arrivals: hooks.any_ack,
            rate: hooks.rate,
            pacing: hooks.pacing,
            signals: hooks.signal,
            classifies,
            ..Needs::default()
        };
        let factory = Arc::new(Senders { class: Arc::clone(&class), watch: Arc::default() });
        let config = ExternalConfig::new(name, summary, needs, params, factory);
        let own = OwnTransport::new(config, recovery.unwrap_or(Recovery::USUAL.name()))
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(SenderClass { class, own })
    }
}

impl SenderClass {
    /// What the scenario reader is told.
    pub(crate) fn own(&self) -> OwnTransport {
        self.own.clone()
    }
}

/// Watches over the Python code of one run.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    failed: AtomicBool,
    failure: Mutex<Option<PyErr>>,
    progress: Arc<Progress>,
}

impl Watch {
    /// Keeps the first failure and stops the run.
    fn fail(&self, py: Python<'_>, what: String, cause: PyErr) {
        let error = RunError::new_err(what);
        error.set_cause(py, Some(cause));
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Relaxed);
        self.progress.cancel();
    }

    /// What went wrong, if anything did.
    pub(crate) fn failure(&self) -> Option<PyErr> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// `plan` with every class of `classes` watched over in this run.
pub(crate) fn watched(
    plan: &Plan,
    classes: &[Py<SenderClass>],
    progress: &Arc<Progress>,
) -> (Plan, Arc<Watch>) {
    let watch = Arc::new(Watch { progress: Arc::clone(progress), ..Watch::default() });
    let mut plan = plan.clone();
    for flow in &mut plan.flows {
        let controller = match &mut flow.transport {
            Transport::Tcp(config) => Some(&mut Arc::make_mut(config).controller),
            Transport::Outside(config) => {
                Arc::make_mut(config).stack.as_mut().and_then(|stack| stack.controller.as_mut())
            }
            Transport::Udp(_) | Transport::Rate(_) => None,
        };
        let Some(controller) = controller else { continue };
        let ControllerConfig::External(external) = &*controller else { continue };
        let class = classes.iter().map(Py::get).find(|class| class.class.transport == external.name);
        if let Some(class) = class {
            let factory = Senders { class: Arc::clone(&class.class), watch: Arc::clone(&watch) };
            *controller = ControllerConfig::External(external.made_by(Arc::new(factory)));
        }
    }
    (plan, watch)
}

/// Makes the senders of one class within one run.
#[derive(Debug)]
struct Senders {
    class: Arc<Class>,
    watch: Arc<Watch>,
}

impl Senders {
    fn construct(&self, py: Python<'_>, values: &[f64]) -> PyResult<Py<Sender>> {
        let arguments = PyDict::new(py);
        for ((name, shape), &value) in self.class.parameters.iter().zip(values) {
            match shape {
                Shape::Switch => arguments.set_item(name, value != 0.0)?,
                Shape::Integer if value.fract() == 0.0 => arguments.set_item(name, value as i64)?,
                Shape::Integer => {
                    return Err(PyTypeError::new_err(format!("{name} must be a whole number, not {value}")));
                }
                Shape::Float => arguments.set_item(name, value)?,
            }
        }
        let object = self.class.object.bind(py).call((), Some(&arguments))?;
        Ok(object.cast_into::<Sender>()?.unbind())
    }
}

impl Factory for Senders {
    fn build(&self, values: &[f64]) -> Box<dyn External> {
        let object = Python::attach(|py| match self.construct(py, values) {
            Ok(object) => Some(object),
            Err(cause) => {
                let what = said(py, &self.class, "__init__", &cause, None);
                self.watch.fail(py, what, cause);
                None
            }
        });
        Box::new(PythonSender {
            object,
            class: Arc::clone(&self.class),
            watch: Arc::clone(&self.watch),
            now: Time::ZERO,
        })
    }
}

/// A message that names class and method.
fn said(py: Python<'_>, class: &Class, method: &str, cause: &PyErr, now: Option<Time>) -> String {
    let kind = cause.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    let when = now.map_or_else(String::new, |now| format!(" at {} simulated", Span(now.0)));
    let text = cause.value(py).to_string();
    let text = if text.is_empty() { String::new() } else { format!(": {text}") };
    let place = place(py, cause).unwrap_or_default();
    format!("transport \"{}\": {}.{method} raised {kind}{when}{text}{place}", class.transport, class.shown)
}

/// File and line where an exception was raised.
fn place(py: Python<'_>, cause: &PyErr) -> Option<String> {
    let mut at = cause.traceback(py)?.into_any();
    loop {
        let next = at.getattr("tb_next").ok()?;
        if next.is_none() {
            break;
        }
        at = next;
    }
    let line: u32 = at.getattr("tb_lineno").ok()?.extract().ok()?;
    let file = at.getattr("tb_frame").ok()?.getattr("f_code").ok()?.getattr("co_filename").ok()?;
    Some(format!(" ({}, line {line})", file.extract::<String>().ok()?))
}

/// A sender whose law is an object of Python.
#[derive(Debug)]
struct PythonSender {
    /// `None` if it could not be made; the run is then about to end.
    object: Option<Py<Sender>>,
    class: Arc<Class>,
    watch: Arc<Watch>,
    /// Time of the last call.
    now: Time,
}

impl PythonSender {
    /// Calls a method with the window set, and takes the window back. `None` after a failure.
    fn call<T>(
        &self,
        window: &mut Window,
        method: &str,
        act: impl FnOnce(&Bound<'_, Sender>) -> PyResult<T>,
    ) -> Option<T> {
        let object = self.object.as_ref()?;
        if self.watch.failed.load(Ordering::Relaxed) {
            return None;
        }
        let shared = object.get();
        shared.cwnd.store(window.cwnd);
        shared.ssthresh.store(window.ssthresh);
        let answer = Python::attach(|py| match act(object.bind(py)) {
            Ok(answer) => Some(answer),
            Err(cause) => {
                let what = said(py, &self.class, method, &cause, Some(self.now));
                self.watch.fail(py, what, cause);
                None
            }
        })?;
        window.cwnd = shared.cwnd.load();
        window.ssthresh = shared.ssthresh.load();
        Some(answer)
    }

    /// Calls one of the methods that reduce, by its name or that of the method which stands in for it.
    fn reduce(&mut self, method: &'static str, loss: &LossSample, window: &Window) -> Reduction {
        self.now = loss.now;
        let mut window = *window;
        // Segments of limited transmit do not count, which may leave less than nothing; senders floor their answer.
        let flight = loss.flight.max(0.0);
        let sample = Loss { now_s: loss.now.seconds(), flight, retransmitted: loss.retransmitted };
        let verdict = self.call(&mut window, method, |object| {
            let answer = object.call_method1(method, (sample,))?;
            verdict(&answer)
        });
        let reduction = Reduction::to(window.ssthresh, window.cwnd);
        match verdict.flatten() {
            Some(kind) => reduction.taken_for(kind),
            None => reduction,
        }
    }
}

/// What a method took a loss for.
fn verdict(answer: &Bound<'_, PyAny>) -> PyResult<Option<LossKind>> {
    if answer.is_none() {
        return Ok(None);
    }
    match answer.extract::<&str>() {
        Ok("congestion") => Ok(Some(LossKind::Congestion)),
        Ok("wireless") => Ok(Some(LossKind::Wireless)),
        _ => {
            let given = answer.repr()?;
            let message = format!("it must return \"congestion\", \"wireless\" or None, not {given}");
            Err(PyValueError::new_err(message))
        }
    }
}

fn seconds(span: Option<Span>) -> Option<f64> {
    span.map(Span::seconds)
}

impl CongestionControl for PythonSender {
    fn on_start(&mut self, _start: &Start<'_>, window: &mut Window) {
        if self.class.hooks.start {
            self.call(window, "on_start", |object| object.call_method0("on_start").map(drop));
        }
    }

    fn on_arrival(&mut self, arrival: &Arrival, window: &mut Window) {
        self.now = arrival.now;
        let sample = AnyAck {
            now_s: arrival.now.seconds(),
            srtt_s: arrival.srtt.seconds(),
            una: arrival.una,
            ack: arrival.ack,
            next: arrival.next,
            mss: arrival.mss,
            ece: arrival.ece,
        };
        self.call(window, "on_any_ack", |object| object.call_method1("on_any_ack", (sample,)).map(drop));
        window.cwnd = window.cwnd.max(1.0);
    }

    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        self.now = ack.now;
        let sample = Ack {
            now_s: ack.now.seconds(),
            rtt_s: seconds(ack.rtt),
            srtt_s: ack.srtt.seconds(),
            acked: ack.acked,
            una: ack.una,
            next: ack.next,
            mss: ack.mss,
            may_grow: ack.may_grow,
        };
        self.call(window, "on_ack", |object| {
            let name = pyo3::intern!(object.py(), "on_ack");
            object.call_method1(name, (sample,)).map(drop)
        });
        window.cwnd = window.cwnd.max(1.0);
    }

    fn on_rate(&mut self, sample: &RateSample, window: &mut Window) {
        self.now = sample.now;
        let segments_per_s = sample.rate.filter(|&(_, interval)| interval > Span::ZERO);
        let rate = Rate {
            now_s: sample.now.seconds(),
            segments_per_s: segments_per_s.map(|(count, interval)| count as f64 / interval.seconds()),
            app_limited: sample.app_limited,
            prior_delivered: sample.prior_delivered,
            delivered: sample.delivered,
            acked: sample.acked,
            lost: sample.lost,
            flight: sample.flight,
            rtt_s: seconds(sample.rtt),
            srtt_s: sample.srtt.seconds(),
            recovery: sample.recovery.map(|kind| match kind {
                RecoveryKind::Fast => "fast",
                RecoveryKind::Timeout => "timeout",
            }),
        };
        self.call(window, "on_rate", |object| object.call_method1("on_rate", (rate,)).map(drop));
        window.cwnd = window.cwnd.max(1.0);
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.reduce("on_loss", loss, window)
    }

    /// Without a method of its own: RFC 5681.
    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        if !self.class.hooks.timeout {
            return Reduction::to(loss.flight / 2.0, 1.0);
        }
        self.reduce("on_timeout", loss, window)
    }

    /// Without a method of its own: as for a loss.
    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.reduce(if self.class.hooks.ecn { "on_ecn" } else { "on_loss" }, loss, window)
    }

    /// The window is not part of this hook: what the method sets is ignored.
    fn on_idle(&mut self, idle: Span, _now: Time) {
        if let Some(object) = self.object.as_ref().filter(|_| self.class.hooks.idle) {
            let shared = object.get();
            let mut window = Window { cwnd: shared.cwnd.load(), ssthresh: shared.ssthresh.load() };
            self.call(&mut window, "on_idle", |object| {
                object.call_method1("on_idle", (idle.seconds(),)).map(drop)
            });
        }
    }

    /// The window is not part of this hook: what the method sets is ignored.
    fn on_signal(&mut self, signal: &lasthop_cc::Signal, now: Time) {
        self.now = now;
        if let Some(object) = self.object.as_ref().filter(|_| self.class.hooks.signal) {
            let shared = object.get();
            let mut window = Window { cwnd: shared.cwnd.load(), ssthresh: shared.ssthresh.load() };
            let said = Signal::new(signal, now);
            self.call(&mut window, "on_signal", |object| object.call_method1("on_signal", (said,)).map(drop));
        }
    }

    fn pacing_rate(&self) -> Option<f64> {
        let object = self.object.as_ref().filter(|_| self.class.hooks.pacing)?;
        let shared = object.get();
        let mut window = Window { cwnd: shared.cwnd.load(), ssthresh: shared.ssthresh.load() };
        let rate = self.call(&mut window, "pacing_rate", |object| {
            let rate: Option<f64> = object.call_method0("pacing_rate")?.extract()?;
            match rate {
                Some(rate) if !(rate > 0.0 && rate.is_finite()) => {
                    let message =
                        format!("it must return segments per second above zero, or None, not {rate}");
                    Err(PyValueError::new_err(message))
                }
                rate => Ok(rate),
            }
        });
        rate.flatten()
    }
}

impl External for PythonSender {
    /// A deep copy of the object: the two then go separate ways.
    fn duplicate(&self) -> Box<dyn External> {
        let object = self.object.as_ref().and_then(|object| {
            Python::attach(|py| match deep_copy(object.bind(py)) {
                Ok(copy) => Some(copy),
                Err(cause) => {
                    let what = said(py, &self.class, "__deepcopy__", &cause, Some(self.now));
                    self.watch.fail(py, what, cause);
                    None
                }
            })
        });
        Box::new(PythonSender {
            object,
            class: Arc::clone(&self.class),
            watch: Arc::clone(&self.watch),
            now: self.now,
        })
    }
}

fn deep_copy(object: &Bound<'_, Sender>) -> PyResult<Py<Sender>> {
    let copied = object.py().import("copy")?.call_method1("deepcopy", (object,))?.cast_into::<Sender>()?;
    copied.get().cwnd.store(object.get().cwnd.load());
    copied.get().ssthresh.store(object.get().ssthresh.load());
    Ok(copied.unbind())
}
