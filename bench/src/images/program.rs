//! The programs that make a picture some times over and tell what it took: this one, and small ones in C that call other
//! libraries, which are compiled here. What is not installed is left out, by name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use image::{Format, Limits, Metadata, Output, Plan, Quality, Resampling, Sampling, Step};
use rustix::time::{ClockId, clock_gettime};

use super::pictures::Source;

/// Name, source, what `pkg-config` knows it by, and a definition.
const PEERS: [(&str, &str, &str, &str); 5] = [
    ("vips", include_str!("peers/vips.c"), "vips", "PLAIN"),
    ("gd", include_str!("peers/gd.c"), "gdlib", "PLAIN"),
    ("imlib2", include_str!("peers/imlib2.c"), "imlib2", "PLAIN"),
    (
        "magick",
        include_str!("peers/magick.c"),
        "MagickWand",
        "PLAIN",
    ),
    (
        "magick-hint",
        include_str!("peers/magick.c"),
        "MagickWand",
        "HINT",
    ),
];

/// A program that makes pictures.
pub struct Program {
    pub name: String,
    path: PathBuf,
    /// What goes before the common arguments.
    first: Option<&'static str>,
}

/// What one process said.
#[derive(Clone, Copy)]
pub struct Run {
    /// CPU time of its quickest picture.
    pub ns: u64,
    pub memory_kb: u64,
    /// Of the picture.
    pub bytes: u64,
}

impl Program {
    pub fn all(names: &[String], dir: &Path) -> Result<Vec<Program>> {
        fs::write(dir.join("common.h"), include_str!("peers/common.h"))?;
        let mut programs = Vec::new();
        for name in names {
            if name == "gannet" {
                programs.push(Program {
                    name: name.clone(),
                    path: std::env::current_exe()?,
                    first: Some("picture"),
                });
                continue;
            }
            let peer = PEERS.iter().find(|peer| peer.0 == name);
            let peer = peer.with_context(|| format!("no library named {name}"))?;
            match compiled(peer, dir) {
                Ok(path) => programs.push(Program {
                    name: name.clone(),
                    path,
                    first: None,
                }),
                Err(error) => println!("{name} is left out: {error:#}"),
            }
        }
        Ok(programs)
    }

    /// A hint is about JPEG, and Imlib2 writes no WebP.
    pub fn takes(&self, source: &Source) -> bool {
        match self.name.as_str() {
            "magick-hint" => source.kind() == "jpg",
            "imlib2" => source.kind() != "webp",
            _ => true,
        }
    }

    pub fn run(
        &self,
        source: &Path,
        side: u32,
        quality: u32,
        times: usize,
        out: &Path,
    ) -> Result<Run> {
        let output = Command::new(&self.path)
            .args(self.first)
            .arg(source)
            .args([side.to_string(), quality.to_string(), times.to_string()])
            .arg(out)
            .env("MAGICK_THREAD_LIMIT", "1")
            .output()?;
        if !output.status.success() {
            bail!("{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        }
        let text = String::from_utf8(output.stdout)?;
        let memory = text.lines().find_map(|line| line.strip_prefix("memory "));
        Ok(Run {
            ns: text.lines().flat_map(str::parse).min().context("no time")?,
            memory_kb: memory.context("no memory")?.trim().parse()?,
            bytes: fs::metadata(out)?.len(),
        })
    }
}

fn compiled(peer: &(&str, &str, &str, &str), dir: &Path) -> Result<PathBuf> {
    let (name, source, package, definition) = peer;
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", package])
        .output()?;
    ensure!(flags.status.success(), "pkg-config knows no {package}");
    let flags = String::from_utf8(flags.stdout)?;
    let (file, path) = (
        dir.join(format!("{name}.c")),
        dir.join(format!("peer-{name}")),
    );
    fs::write(&file, source)?;
    let compiled = Command::new("cc")
        .args(["-O2", "-D", definition, "-o"])
        .arg(&path)
        .arg(&file)
        .args(flags.split_whitespace())
        .output()?;
    ensure!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    Ok(path)
}

/// `picture FILE WIDTH QUALITY TIMES OUT`: what the programs in C do, by Gannet's own pipeline.
pub fn picture(arguments: impl Iterator<Item = String>) -> Result<()> {
    let arguments: Vec<String> = arguments.collect();
    let [file, side, quality, times, out] = arguments.as_slice() else {
        bail!("picture FILE WIDTH QUALITY TIMES OUT")
    };
    let source = fs::read(file)?;
    let (side, times): (u32, usize) = (side.parse()?, times.parse()?);
    let mut made = None;
    for _ in 0..times {
        let before = cpu();
        made = Some(image::render(
            &source,
            &plan(&source, side, quality.parse()?)?,
            &Limits::default(),
        )?);
        println!("{}", (cpu() - before).as_nanos());
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let memory = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!(
        "memory {}",
        memory
            .and_then(|text| text.trim().strip_suffix(" kB"))
            .context("VmHWM")?
    );
    fs::write(out, made.context("no picture")?.bytes)?;
    Ok(())
}

fn plan(source: &[u8], side: u32, quality: u8) -> Result<Plan> {
    let facts = image::probe(source)?;
    let most = u64::from(facts.width.max(facts.height));
    let scaled = |length: u32| (u64::from(length) * u64::from(side) / most) as u32;
    Ok(Plan {
        steps: vec![Step::Resize {
            width: scaled(facts.width),
            height: scaled(facts.height),
            resampling: Resampling::Best,
        }],
        animation: false,
        output: Output {
            quality: Quality::Percent(quality),
            sampling: Sampling::Half,
            metadata: Metadata::Strip,
            lossless: facts.format != Format::Webp,
            ..Output::new(facts.format)
        },
    })
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
