//! files

#[derive(Debug, Default)]
pub struct LogFiles {}
