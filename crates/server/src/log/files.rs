//! files

#[derive(Debug, Default)]
pub struct LogFiles {}

impl LogFiles {
    /// Numbers the files that the locations log to.
    pub fn collect(&mut self, _: &mut [crate::config::model::Location]) {}
}
