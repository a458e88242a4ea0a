//! What is served: drawn pages, or the files of a site; certificates whose keys everybody knows, good for measuring only.

use crate::server;
use crate::study::Contender;
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub const RSA: (&str, &str) = (
    include_str!("material/rsa.crt"),
    include_str!("material/rsa.key"),
);
pub const ECDSA: (&str, &str) = (
    include_str!("material/ecdsa.crt"),
    include_str!("material/ecdsa.key"),
);

/// Of the published page.
const PAGE_BYTES: usize = 170 * 1024;
/// Files of a site that are looked at, and asked for.
const FILES_SEEN_MAX: usize = 100_000;
const FILES_MAX: usize = 50;
/// Larger files of a site are left out.
const FILE_MAX: u64 = 16 << 20;
/// What compresses well, by its ending.
const TEXTS: &[&str] = &[
    "html", "htm", "css", "js", "mjs", "json", "svg", "txt", "xml",
];
const DEPTH_MAX: usize = 16;

/// The site that a study is about.
#[derive(Clone, Debug, Default)]
pub struct Site {
    pub root: Option<PathBuf>,
    /// A site that runs.
    pub url: Option<String>,
}

/// Writes a file of so many bytes for each size into the drawn files.
pub fn sized(workspace: &Workspace, sizes: &[(&str, usize)]) -> Result<(), String> {
    for (name, size) in sizes {
        workspace.write(&format!("www/{name}"), &filler(*size))?;
    }
    Ok(())
}

/// Bytes that no compression makes much smaller.
fn filler(size: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(size as u64);
    std::iter::repeat_with(|| random.alphanumeric() as u8)
        .take(size)
        .collect()
}

/// Writes a certificate and its key; gives the two directives that name them.
pub fn certificate(
    workspace: &Workspace,
    name: &str,
    pair: (&str, &str),
) -> Result<String, String> {
    let certificate = workspace.write(&format!("{name}.crt"), pair.0.as_bytes())?;
    let key = workspace.write(&format!("{name}.key"), pair.1.as_bytes())?;
    Ok(format!(
        "ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate {}; ssl_certificate_key {};",
        certificate.display(),
        key.display()
    ))
}

/// Pages that compress: those of the site, or one that is drawn. Folder and paths.
pub fn pages(site: &Site, workspace: &Workspace) -> Result<(PathBuf, Vec<String>), String> {
    if let Some(root) = &site.root {
        let paths = files(root, TEXTS);
        if paths.is_empty() {
            let root = root.display();
            return Err(format!(
                "\"{root}\" has no files that compress, such as .html, .css, .js"
            ));
        }
        return Ok((root.clone(), paths));
    }
    let page = match &site.url {
        Some(url) => fetch(url)?,
        None => page(PAGE_BYTES),
    };
    workspace.write("www/page.html", &page)?;
    Ok((workspace.root(), vec!["/page.html".to_owned()]))
}

/// A folder with these files and their copies made ahead by gzip.
pub fn compressed(workspace: &Workspace, root: &Path, paths: &[String]) -> Result<PathBuf, String> {
    let folder = workspace.path().join("copies");
    for path in paths {
        let relative = path.trim_start_matches('/');
        let to = folder.join(relative);
        let made = to.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::copy(root.join(relative), &to))
            .map_err(|error| format!("cannot copy \"{relative}\": {error}"))?;
    }
    let program = server::program(Contender::Gannet)?;
    let mut command = Command::new(program);
    command
        .args(["precompress", "--codings", "gzip"])
        .arg(&folder);
    sys::signal::unblock_in_child(&mut command);
    let output = command
        .output()
        .map_err(|error| format!("cannot compress: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "cannot compress: {}",
            said.lines().next().unwrap_or_default()
        ));
    }
    Ok(folder)
}

/// The body behind a URL.
pub fn fetch(url: &str) -> Result<Vec<u8>, String> {
    let response = load::command::fetch(url)?;
    match response.status {
        200 if !response.body.is_empty() => Ok(response.body),
        200 => Err(format!("{url} is empty")),
        status => Err(format!("{url} answers with status {status}")),
    }
}

/// Puts a photograph of the site, or one that is drawn, where it is served as picture.jpg.
pub fn picture(site: &Site, workspace: &Workspace) -> Result<(), String> {
    let bytes = match (&site.root, &site.url) {
        (Some(root), _) => {
            let length = |path: &String| {
                let data = fs::metadata(root.join(path.trim_start_matches('/')));
                data.map_or(0, |data| data.len())
            };
            // The largest costs the most.
            let largest = files(root, &["jpg", "jpeg"]).into_iter().max_by_key(length);
            match largest {
                Some(path) => fs::read(root.join(path.trim_start_matches('/')))
                    .map_err(|error| format!("cannot read \"{path}\": {error}"))?,
                None => draw()?,
            }
        }
        (None, Some(url)) => match fetch(url)? {
            body if body.starts_with(JPEG) => body,
            _ => draw()?,
        },
        (None, None) => draw()?,
    };
    workspace.write("www/picture.jpg", &bytes).map(drop)
}

/// How every JPEG begins.
const JPEG: &[u8] = &[0xff, 0xd8, 0xff];
/// Of the drawn photograph, in pixels.
const PICTURE: (u32, u32) = (4000, 3000);

/// A JPEG of large and small details, as photographs have.
fn draw() -> Result<Vec<u8>, String> {
    let failed = |why: String| format!("cannot draw a picture: {why}");
    let (width, height) = PICTURE;
    let mut random = fastrand::Rng::with_seed(12);
    let waves: Vec<[f32; 4]> = (0..12)
        .map(|n| {
            let fineness = 2f32.powi(n / 2) * 0.002;
            [
                fineness * (random.f32() - 0.5),
                fineness * (random.f32() - 0.5),
                random.f32() * 6.0,
                40.0 / (n + 1) as f32,
            ]
        })
        .collect();
    let mut pixels = Vec::with_capacity((width * height * 3) as usize);
    for y in 0..height {
        for x in 0..width {
            let at = |wave: &[f32; 4]| {
                (wave[0] * x as f32 + wave[1] * y as f32 + wave[2]).sin() * wave[3]
            };
            let light: f32 = waves.iter().map(at).sum();
            let grain = random.f32() * 12.0;
            for shade in [120.0, 110.0, 95.0] {
                pixels.push((shade + light + grain).clamp(0.0, 255.0) as u8);
            }
        }
    }
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder
        .write_header()
        .map_err(|error| failed(error.to_string()))?;
    writer
        .write_image_data(&pixels)
        .and_then(|()| writer.finish())
        .map_err(|error| failed(error.to_string()))?;
    let mut output = image::Output::new(image::Format::Jpeg);
    output.quality = image::Quality::Percent(90);
    let plan = image::Plan {
        steps: Vec::new(),
        animation: false,
        output,
    };
    let limits = image::Limits {
        deadline: Duration::from_secs(120),
        ..image::Limits::default()
    };
    let picture =
        image::render(&file, &plan, &limits).map_err(|error| failed(error.to_string()))?;
    Ok(picture.bytes)
}

/// Paths of a folder's files with one of these endings, as URLs have them; evenly chosen if there are many.
pub fn files(root: &Path, endings: &[&str]) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![(root.to_path_buf(), String::new(), 0)]);
    let mut seen = 0;
    while let Some((folder, prefix, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
            seen += 1;
            if seen > FILES_SEEN_MAX || name.starts_with('.') || !name.chars().all(plain) {
                continue;
            }
            let path = format!("{prefix}/{name}");
            match entry.metadata() {
                Ok(data) if data.is_dir() && depth < DEPTH_MAX => {
                    folders.push((entry.path(), path, depth + 1));
                }
                Ok(data) if data.is_file() && (1..=FILE_MAX).contains(&data.len()) => {
                    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
                    let fits = ending.is_some_and(|own| {
                        endings
                            .iter()
                            .any(|ending| ending.eq_ignore_ascii_case(own))
                    });
                    found.extend(fits.then_some(path));
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    found.sort();
    let step = found.len().div_ceil(FILES_MAX).max(1);
    found.into_iter().step_by(step).collect()
}

/// A page of about so many bytes that compresses as pages do: words by how common they are, links, repeated markup.
fn page(size: usize) -> Vec<u8> {
    const SYLLABLES: &[&str] = &[
        "ga", "nor", "ti", "sel", "va", "mi", "re", "lo", "den", "ka", "pru", "es", "un", "fo",
        "bra", "qui",
    ];
    let mut random = fastrand::Rng::with_seed(170);
    let words: Vec<String> = (0..2500)
        .map(|_| {
            (0..random.usize(1..5))
                .map(|_| SYLLABLES[random.usize(..SYLLABLES.len())])
                .collect()
        })
        .collect();
    // The nth word is about as common as 1/n.
    let mut word = || {
        let rank = (words.len() as f64).powf(random.f64()) as usize;
        words.get(rank.saturating_sub(1)).map_or("", String::as_str)
    };
    let mut text =
        String::from("<!DOCTYPE html>\n<html><head><title>News</title></head>\n<body>\n");
    let mut number = 0;
    while text.len() < size {
        number += 1;
        let (topic, heading) = (word().to_owned(), [word(), word(), word()].join(" "));
        let body: Vec<&str> = (0..40).map(|_| word()).collect();
        text.push_str(&format!(
            "<div class=\"item\" id=\"item-{number}\"><h3><a class=\"title\" href=\"/news/{topic}/{}\">{heading}</a></h3>\n\
             <p class=\"text\">{}.</p></div>\n",
            100_003 * number % 999_983,
            body.join(" ")
        ));
    }
    text.push_str("</body></html>\n");
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_gives_its_files() {
        let root = std::env::temp_dir().join(format!("study-files-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        for name in [
            "x.html",
            "a/y.CSS",
            "a/b/z.js",
            "a/p.png",
            ".hidden.html",
            "a/sp ace.html",
        ] {
            fs::write(root.join(name), "x").unwrap();
        }
        fs::write(root.join("empty.html"), "").unwrap();
        let found = files(&root, TEXTS);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, ["/a/b/z.js", "/a/y.CSS", "/x.html"]);
    }

    #[test]
    fn pages_are_the_same_each_time() {
        let page = page(PAGE_BYTES);
        assert!((PAGE_BYTES..PAGE_BYTES + 1000).contains(&page.len()));
        assert_eq!(page, super::page(PAGE_BYTES));
        assert_eq!(filler(1000).len(), 1000);
    }
}
