//! Controllers that are not compiled in, such as classes written in Python.
//!
//! The program that embeds the engine describes one by an [`ExternalConfig`] and hands it over with the scenario;
//! from there on it is a controller like any other. Dispatch to these is dynamic, to the registered ones it is not.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{CongestionControl, Needs, Param, ParamError};

/// A running controller from outside.
pub trait External: CongestionControl + Debug + Send + Sync {
    /// Another in the same state.
    fn duplicate(&self) -> Box<dyn External>;
}

impl Clone for Box<dyn External> {
    fn clone(&self) -> Self {
        self.duplicate()
    }
}

/// Makes controllers of one kind.
pub trait Factory: Debug + Send + Sync {
    /// A fresh controller; `values` has one value for each parameter of the [`ExternalConfig`].
    fn build(&self, values: &[f64]) -> Box<dyn External>;
}

/// Choice and parameters of a controller from outside.
#[derive(Clone, Debug)]
pub struct ExternalConfig {
    /// The scenario name.
    pub name: &'static str,
    /// One line on what the controller does.
    pub summary: &'static str,
    /// What it needs of its sender and receiver.
    pub needs: Needs,
    params: Arc<[Param]>,
    values: Vec<f64>,
    factory: Arc<dyn Factory>,
}

impl ExternalConfig {
    /// A controller with its parameters at their defaults.
    pub fn new(
        name: &str,
        summary: &str,
        needs: Needs,
        params: Vec<Param>,
        factory: Arc<dyn Factory>,
    ) -> ExternalConfig {
        let values = params.iter().map(|param| param.default).collect();
        ExternalConfig {
            name: intern(name),
            summary: intern(summary),
            needs,
            params: params.into(),
            values,
            factory,
        }
    }

    /// The same controller, made by another factory.
    #[must_use]
    pub fn made_by(&self, factory: Arc<dyn Factory>) -> ExternalConfig {
        ExternalConfig { factory, ..self.clone() }
    }

    pub(crate) fn params(&self) -> Vec<Param> {
        self.params.to_vec()
    }

    pub(crate) fn set(&mut self, name: &str, value: f64) -> Result<(), ParamError> {
        let index = self.index(name).ok_or(ParamError::Unknown)?;
        let Param { min, max, .. } = self.params[index];
        if !(min..=max).contains(&value) {
            return Err(ParamError::OutOfRange { min, max });
        }
        self.values[index] = value;
        Ok(())
    }

    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.index(name).map(|index| self.values[index])
    }

    pub(crate) fn build(&self) -> Box<dyn External> {
        self.factory.build(&self.values)
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|param| param.name == name)
    }
}

impl PartialEq for ExternalConfig {
    fn eq(&self, other: &ExternalConfig) -> bool {
        self.name == other.name && self.values == other.values && Arc::ptr_eq(&self.factory, &other.factory)
    }
}

/// `text` for as long as the process runs. Each text is kept once, so that a scenario may be read any number of times.
pub fn intern(text: &str) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return known;
    }
    let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
    texts.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, loss};
    use crate::{AckSample, ControllerConfig, LossSample, Reduction, Window};

    /// Adds `step` segments per ACK.
    #[derive(Clone, Debug)]
    struct Stepper {
        step: f64,
    }

    impl CongestionControl for Stepper {
        fn on_ack(&mut self, _ack: &AckSample, window: &mut Window) {
            window.cwnd += self.step;
        }
        fn on_loss(&mut self, loss: &LossSample, _window: &Window) -> Reduction {
            Reduction::to(loss.flight, loss.flight)
        }
        fn on_timeout(&mut self, loss: &LossSample, _window: &Window) -> Reduction {
            Reduction::to(loss.flight, 1.0)
        }
    }

    impl External for Stepper {
        fn duplicate(&self) -> Box<dyn External> {
            Box::new(self.clone())
        }
    }

    #[derive(Debug)]
    struct Steppers;

    impl Factory for Steppers {
        fn build(&self, values: &[f64]) -> Box<dyn External> {
            Box::new(Stepper { step: values[0] })
        }
    }

    fn config() -> ControllerConfig {
        let step =
            Param { name: "step", help: "", default: 2.0, min: 0.0, max: 9.0, switch: false, choices: &[] };
        let needs = Needs { rate: true, ..Needs::default() };
        ControllerConfig::External(ExternalConfig::new(
            "stepper",
            "Steps",
            needs,
            vec![step],
            Arc::new(Steppers),
        ))
    }

    #[test]
    fn is_a_controller_like_any_other() {
        let mut config = config();
        assert_eq!((config.name(), config.summary(), config.params().len()), ("stepper", "Steps", 1));
        assert!(config.needs().rate);
        assert_eq!(config.set("step", 9.5), Err(ParamError::OutOfRange { min: 0.0, max: 9.0 }));
        assert_eq!(config.set("height", 1.0), Err(ParamError::Unknown));
        config.set("step", 3.0).unwrap();
        assert_eq!(config.value("step"), Some(3.0));
        let mut controller = config.build();
        let mut window = Window { cwnd: 2.0, ssthresh: 64.0 };
        controller.on_ack(&ack(1), &mut window);
        controller.clone().on_ack(&ack(1), &mut window);
        assert_eq!(window.cwnd, 8.0);
        assert_eq!(controller.on_timeout(&loss(7.0), &window), Reduction::to(7.0, 1.0));
    }

    #[test]
    fn configurations_are_equal_if_made_by_the_same() {
        let (one, other) = (config(), config());
        assert_eq!(one, one.clone());
        assert_ne!(one, other, "another factory");
    }

    #[test]
    fn a_text_is_kept_once() {
        assert!(std::ptr::eq(intern("kept once"), intern(["kept", "once"].join(" ").as_str())));
    }
}
