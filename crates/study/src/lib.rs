//! Studies: published measurements of web servers, repeated on this machine with the load tester. A study is a list of
//! cases (a configuration, and a load for it); they are measured in rounds, and what was found is told as tables, charts
//! and recommendations. The modules stand in the order of a study.

/// `gannet study` and `gannet tune`: arguments and what becomes of them.
pub mod command;
/// Processors, memory, kernel.
mod machine;
/// What is served: drawn pages and pictures, certificates, or the files of a site.
mod material;
/// One case on one server.
mod measure;
/// The report: text, JSON, a page with charts.
mod report;
/// What was measured, by case and server.
mod results;
/// Rounds in which servers take turns.
mod rounds;
/// Servers that a study starts and ends.
mod server;
/// The published measurements, a file each.
mod studies;
/// What a study is made of, and what it tells.
mod study;
/// The short form of all studies: the directives that they speak for.
mod tune;
/// Processor time and memory of processes.
mod usage;
/// The directory and the ports of a study.
mod workspace;
