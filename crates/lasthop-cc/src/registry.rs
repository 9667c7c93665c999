//! The registry: from one line per controller come the enum, lookup by name and dispatch.
//!
//! Beside the registered controllers there is one variant for those that come from outside (`external.rs`).

/// The type in which a running controller holds a state: itself, or the home that its line names.
macro_rules! held {
    ($state:ty) => { $state };
    ($state:ty, $home:ident) => { $home<$state> };
}
pub(crate) use held;

/// What is held there.
macro_rules! released {
    ($state:expr) => {
        $state
    };
    ($state:expr, $home:ident) => {
        *$state
    };
}
pub(crate) use released;

/// Declares every controller. Dispatch is a match on the variant, so the ACK path of these has no virtual call. A large
/// state stands `in Box`, so that the flows of others do not pay for it.
macro_rules! controllers {
    ($($name:literal => $module:ident::$type:ident $(in $home:ident)?,)*) => {
        /// A controller's choice and parameters, as a scenario gives them.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ControllerConfig {
            $(#[doc = concat!("`", $name, "`")] $type($module::Params),)*
            /// One that is not compiled in.
            External($crate::ExternalConfig),
        }

        impl ControllerConfig {
            /// Names of all controllers, in the order of registration.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The controller called `name` with default parameters.
            pub fn by_name(name: &str) -> Option<ControllerConfig> {
                match name {
                    $($name => Some(ControllerConfig::$type($module::Params::default())),)*
                    _ => None,
                }
            }

            /// The scenario name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(ControllerConfig::$type(_) => $name,)*
                    ControllerConfig::External(config) => config.name,
                }
            }

            /// One line on what the controller does.
            pub fn summary(&self) -> &'static str {
                match self {
                    $(ControllerConfig::$type(_) => $module::SUMMARY,)*
                    ControllerConfig::External(config) => config.summary,
                }
            }

            /// Every parameter with help, default and range.
            pub fn params(&self) -> Vec<Param> {
                match self {
                    $(ControllerConfig::$type(_) => $module::Params::list(),)*
                    ControllerConfig::External(config) => config.params(),
                }
            }

            /// Sets one parameter; switches take 0 and 1.
            pub fn set(&mut self, name: &str, value: f64) -> Result<(), ParamError> {
                match self {
                    $(ControllerConfig::$type(params) => params.set(name, value),)*
                    ControllerConfig::External(config) => config.set(name, value),
                }
            }

            /// The current value of one parameter.
            pub fn value(&self, name: &str) -> Option<f64> {
                match self {
                    $(ControllerConfig::$type(params) => params.value(name),)*
                    ControllerConfig::External(config) => config.value(name),
                }
            }

            /// What the controller with these parameters needs of its sender and receiver.
            pub fn needs(&self) -> Needs {
                match self {
                    ControllerConfig::External(config) => config.needs,
                    registered => registered.build().needs(),
                }
            }

            /// A fresh controller.
            pub fn build(&self) -> Controller {
                match self {
                    $(ControllerConfig::$type(params) => Controller::$type($module::$type::new(params).into()),)*
                    ControllerConfig::External(config) => Controller::External(config.build()),
                }
            }
        }

        /// A running controller.
        #[derive(Clone, Debug)]
        pub enum Controller {
            $(#[doc = concat!("`", $name, "`")] $type($crate::registry::held!($module::$type $(, $home)?)),)*
            /// One that is not compiled in.
            External(Box<dyn $crate::External>),
        }

        impl CongestionControl for Controller {
            fn needs(&self) -> Needs {
                match self {
                    $(Controller::$type(controller) => controller.needs(),)*
                    Controller::External(controller) => controller.needs(),
                }
            }
            fn on_start(&mut self, start: &Start<'_>, window: &mut Window) {
                match self {
                    $(Controller::$type(controller) => controller.on_start(start, window),)*
                    Controller::External(controller) => controller.on_start(start, window),
                }
            }
            #[inline]
            fn on_arrival(&mut self, arrival: &Arrival, window: &mut Window) {
                match self {
                    $(Controller::$type(controller) => controller.on_arrival(arrival, window),)*
                    Controller::External(controller) => controller.on_arrival(arrival, window),
                }
            }
            #[inline]
            fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
                match self {
                    $(Controller::$type(controller) => controller.on_ack(ack, window),)*
                    Controller::External(controller) => controller.on_ack(ack, window),
                }
            }
            fn on_sacked(&mut self, sample: &AckSample, window: &mut Window) {
                match self {
                    $(Controller::$type(controller) => controller.on_sacked(sample, window),)*
                    Controller::External(controller) => controller.on_sacked(sample, window),
                }
            }
            #[inline]
            fn on_rate(&mut self, sample: &RateSample, window: &mut Window) {
                match self {
                    $(Controller::$type(controller) => controller.on_rate(sample, window),)*
                    Controller::External(controller) => controller.on_rate(sample, window),
                }
            }
            fn on_lost_segment(&mut self, lost: &LostSegment, window: &Window) {
                match self {
                    $(Controller::$type(controller) => controller.on_lost_segment(lost, window),)*
                    Controller::External(controller) => controller.on_lost_segment(lost, window),
                }
            }
            fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
                match self {
                    $(Controller::$type(controller) => controller.on_loss(loss, window),)*
                    Controller::External(controller) => controller.on_loss(loss, window),
                }
            }
            fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
                match self {
                    $(Controller::$type(controller) => controller.on_timeout(loss, window),)*
                    Controller::External(controller) => controller.on_timeout(loss, window),
                }
            }
            fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
                match self {
                    $(Controller::$type(controller) => controller.on_ecn(loss, window),)*
                    Controller::External(controller) => controller.on_ecn(loss, window),
                }
            }
            fn on_reduced(&mut self) {
                match self {
                    $(Controller::$type(controller) => controller.on_reduced(),)*
                    Controller::External(controller) => controller.on_reduced(),
                }
            }
            fn on_idle(&mut self, idle: Span, now: Time) {
                match self {
                    $(Controller::$type(controller) => controller.on_idle(idle, now),)*
                    Controller::External(controller) => controller.on_idle(idle, now),
                }
            }
            fn on_probes(&mut self, probes: &ProbeSample) {
                match self {
                    $(Controller::$type(controller) => controller.on_probes(probes),)*
                    Controller::External(controller) => controller.on_probes(probes),
                }
            }
            fn on_undo(&mut self, before: Controller) {
                match (self, before) {
                    $((Controller::$type(controller), Controller::$type(before)) => {
                        controller.on_undo($crate::registry::released!(before $(, $home)?));
                    })*
                    (controller, before) => *controller = before,
                }
            }
            fn on_signal(&mut self, signal: &Signal, now: Time) {
                match self {
                    $(Controller::$type(controller) => controller.on_signal(signal, now),)*
                    Controller::External(controller) => controller.on_signal(signal, now),
                }
            }
            fn estimates(&self) -> Option<Estimates> {
                match self {
                    $(Controller::$type(controller) => controller.estimates(),)*
                    Controller::External(controller) => controller.estimates(),
                }
            }
            fn loss_signs(&self) -> Option<LossSigns> {
                match self {
                    $(Controller::$type(controller) => controller.loss_signs(),)*
                    Controller::External(controller) => controller.loss_signs(),
                }
            }
            fn pacing_rate(&self) -> Option<f64> {
                match self {
                    $(Controller::$type(controller) => controller.pacing_rate(),)*
                    Controller::External(controller) => controller.pacing_rate(),
                }
            }
            fn longest_train(&self) -> Option<f64> {
                match self {
                    $(Controller::$type(controller) => controller.longest_train(),)*
                    Controller::External(controller) => controller.longest_train(),
                }
            }
            fn filter_rtt(&mut self, rtt: Span, end: u64, now: Time) -> Option<Span> {
                match self {
                    $(Controller::$type(controller) => controller.filter_rtt(rtt, end, now),)*
                    Controller::External(controller) => controller.filter_rtt(rtt, end, now),
                }
            }
            fn timer_extension(&self) -> Span {
                match self {
                    $(Controller::$type(controller) => controller.timer_extension(),)*
                    Controller::External(controller) => controller.timer_extension(),
                }
            }
            fn retry_extension(&self) -> Span {
                match self {
                    $(Controller::$type(controller) => controller.retry_extension(),)*
                    Controller::External(controller) => controller.retry_extension(),
                }
            }
            fn dup_threshold(&self, una: u64, usual: u32) -> u32 {
                match self {
                    $(Controller::$type(controller) => controller.dup_threshold(una, usual),)*
                    Controller::External(controller) => controller.dup_threshold(una, usual),
                }
            }
            fn resends_given_up(&self) -> bool {
                match self {
                    $(Controller::$type(controller) => controller.resends_given_up(),)*
                    Controller::External(controller) => controller.resends_given_up(),
                }
            }
            fn retransmit_delay(&self) -> Option<Span> {
                match self {
                    $(Controller::$type(controller) => controller.retransmit_delay(),)*
                    Controller::External(controller) => controller.retransmit_delay(),
                }
            }
        }
    };
}
pub(crate) use controllers;
