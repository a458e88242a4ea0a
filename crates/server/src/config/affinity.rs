//! `worker_cpu_affinity`: which processors each network thread keeps to.

use super::build::Build;
use super::directive::Outcome;
use super::setting::Complaint;
use conf::Directive;

/// The processors that one mask can name.
const PROCESSORS_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuAffinity {
    /// Wherever the kernel puts a thread.
    Any,
    /// Each thread on one processor, in turn; of these processors if there are any.
    Auto(Vec<usize>),
    /// One set for each thread; the last holds for the remaining ones. An empty set binds nothing.
    Masks(Vec<Vec<usize>>),
}

impl CpuAffinity {
    /// The processors of the thread with this number, from 0, on a machine with `processors` of them.
    #[must_use]
    pub fn of_thread(&self, thread: usize, processors: usize) -> Vec<usize> {
        match self {
            CpuAffinity::Any => Vec::new(),
            CpuAffinity::Auto(among) if among.is_empty() => vec![thread % processors.max(1)],
            CpuAffinity::Auto(among) => vec![among[thread % among.len()]],
            CpuAffinity::Masks(masks) => masks
                .get(thread)
                .or(masks.last())
                .cloned()
                .unwrap_or_default(),
        }
    }

    /// How many masks were written.
    #[must_use]
    pub fn masks(&self) -> usize {
        match self {
            CpuAffinity::Masks(masks) => masks.len(),
            CpuAffinity::Any | CpuAffinity::Auto(_) => 0,
        }
    }
}

/// The setter of `worker_cpu_affinity`.
pub fn worker_cpu_affinity(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.main.cpu_affinity.vacant()?;
    let words = &directive.args[..];
    let affinity = match words {
        [first, rest @ ..] if first[..] == *b"auto" => match rest {
            [] => CpuAffinity::Auto(Vec::new()),
            [among] => CpuAffinity::Auto(mask(among)?),
            _ => {
                return Err(
                    "invalid number of arguments in \"worker_cpu_affinity\" directive".into(),
                );
            }
        },
        words => CpuAffinity::Masks(
            words
                .iter()
                .map(|word| mask(word))
                .collect::<Result<_, _>>()?,
        ),
    };
    setting.set(affinity)
}

/// A mask of `0` and `1`, the first processor last; blanks may group the digits.
fn mask(text: &[u8]) -> Result<Vec<usize>, Complaint> {
    if text.len() > PROCESSORS_MAX {
        return Err(
            format!("\"worker_cpu_affinity\" supports up to {PROCESSORS_MAX} CPUs only").into(),
        );
    }
    let mut digits = text.iter().rev();
    let wrong = digits.find(|byte| !matches!(byte, b'0' | b'1' | b' '));
    if let Some(&wrong) = wrong {
        return Err(format!(
            "invalid character \"{}\" in \"worker_cpu_affinity\"",
            char::from(wrong)
        )
        .into());
    }
    let digits = text.iter().rev().filter(|&&byte| byte != b' ');
    let set = digits.enumerate().filter(|&(_, &digit)| digit == b'1');
    Ok(set.map(|(processor, _)| processor).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_from_the_right() {
        assert_eq!(mask(b"0101").unwrap(), [0, 2]);
        assert_eq!(mask(b"1000 0000").unwrap(), [7]);
        assert!(mask(b"").unwrap().is_empty());
        assert!(mask(b"012").unwrap_err().text.contains("\"2\""));
        assert!(mask(&[b'0'; 1025]).is_err());
    }

    #[test]
    fn threads_take_their_processors() {
        let masks = CpuAffinity::Masks(vec![vec![0], vec![1, 2]]);
        assert_eq!(masks.of_thread(0, 8), [0]);
        assert_eq!(masks.of_thread(5, 8), [1, 2]);
        assert_eq!(CpuAffinity::Auto(Vec::new()).of_thread(5, 4), [1]);
        assert_eq!(CpuAffinity::Auto(vec![3, 6]).of_thread(3, 8), [6]);
        assert!(CpuAffinity::Any.of_thread(3, 8).is_empty());
    }
}
