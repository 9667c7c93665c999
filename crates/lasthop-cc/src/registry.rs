//! The registry: from one line per controller come the enum, lookup by name and dispatch.

/// Declares every controller. Dispatch is a match on the variant, so the ACK path has no virtual call.
macro_rules! controllers {
    ($($name:literal => $module:ident::$type:ident,)*) => {
        /// A controller's choice and parameters, as a scenario gives them.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ControllerConfig {
            $(#[doc = concat!("`", $name, "`")] $type($module::Params),)*
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
                match self { $(ControllerConfig::$type(_) => $name,)* }
            }

            /// One line on what the controller does.
            pub fn summary(&self) -> &'static str {
                match self { $(ControllerConfig::$type(_) => $module::SUMMARY,)* }
            }

            /// Every parameter with help, default and range.
            pub fn params(&self) -> Vec<Param> {
                match self { $(ControllerConfig::$type(_) => $module::Params::list(),)* }
            }

            /// Sets one parameter; switches take 0 and 1.
            pub fn set(&mut self, name: &str, value: f64) -> Result<(), ParamError> {
                match self { $(ControllerConfig::$type(params) => params.set(name, value),)* }
            }

            /// The current value of one parameter.
            pub fn value(&self, name: &str) -> Option<f64> {
                match self { $(ControllerConfig::$type(params) => params.value(name),)* }
            }

            /// What the controller with these parameters needs of its sender and receiver.
            pub fn needs(&self) -> Needs {
                self.build().needs()
            }

            /// A fresh controller.
            pub fn build(&self) -> Controller {
                match self { $(ControllerConfig::$type(params) => Controller::$type($module::$type::new(params)),)* }
            }
        }

        /// A running controller.
        #[derive(Clone, Debug)]
        pub enum Controller {
            $(#[doc = concat!("`", $name, "`")] $type($module::$type),)*
        }

        impl CongestionControl for Controller {
            fn needs(&self) -> Needs {
                match self { $(Controller::$type(controller) => controller.needs(),)* }
            }
            fn on_start(&mut self, start: &Start<'_>, window: &mut Window) {
                match self { $(Controller::$type(controller) => controller.on_start(start, window),)* }
            }
            #[inline]
            fn on_arrival(&mut self, arrival: &Arrival, window: &mut Window) {
                match self { $(Controller::$type(controller) => controller.on_arrival(arrival, window),)* }
            }
            #[inline]
            fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
                match self { $(Controller::$type(controller) => controller.on_ack(ack, window),)* }
            }
            #[inline]
            fn on_rate(&mut self, sample: &RateSample, window: &mut Window) {
                match self { $(Controller::$type(controller) => controller.on_rate(sample, window),)* }
            }
            fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
                match self { $(Controller::$type(controller) => controller.on_loss(loss, window),)* }
            }
            fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
                match self { $(Controller::$type(controller) => controller.on_timeout(loss, window),)* }
            }
            fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
                match self { $(Controller::$type(controller) => controller.on_ecn(loss, window),)* }
            }
            fn on_idle(&mut self, idle: Span) {
                match self { $(Controller::$type(controller) => controller.on_idle(idle),)* }
            }
            fn on_probes(&mut self, probes: &ProbeSample) {
                match self { $(Controller::$type(controller) => controller.on_probes(probes),)* }
            }
            fn on_signal(&mut self, signal: &Signal, now: Time) {
                match self { $(Controller::$type(controller) => controller.on_signal(signal, now),)* }
            }
            fn pacing_rate(&self) -> Option<f64> {
                match self { $(Controller::$type(controller) => controller.pacing_rate(),)* }
            }
            fn filter_rtt(&mut self, rtt: Span, end: u64, now: Time) -> Option<Span> {
                match self { $(Controller::$type(controller) => controller.filter_rtt(rtt, end, now),)* }
            }
            fn timer_extension(&self) -> Span {
                match self { $(Controller::$type(controller) => controller.timer_extension(),)* }
            }
            fn dup_threshold(&self, una: u64, usual: u32) -> u32 {
                match self { $(Controller::$type(controller) => controller.dup_threshold(una, usual),)* }
            }
            fn retransmit_delay(&self) -> Option<Span> {
                match self { $(Controller::$type(controller) => controller.retransmit_delay(),)* }
            }
        }
    };
}
pub(crate) use controllers;
