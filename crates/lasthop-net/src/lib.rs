//! What packets meet on their way: queues, links, channels, transport endpoints and traffic.
pub mod link;
pub mod measure;
pub mod plan;
pub mod transport;
