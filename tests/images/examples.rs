//! The example pictures of docs/images.md, which `./dev docs` makes anew.

use super::start;
use std::fs;
use std::path::Path;

/// Files of docs/images, and what the gallery's sample becomes them by.
const EXAMPLES: [(&str, &str); 9] = [
    ("fit.jpg", "dw=160,dh=160"),
    ("cover.jpg", "dw=160,dh=160,da=s,cw=160,ch=160"),
    ("stretch.jpg", "dw=160,dh=160,da=n"),
    ("part.jpg", "sx=300,sy=100,sw=300,sh=300,dw=160"),
    ("canvas.jpg", "dw=120,cw=160,ch=120,dx=10,dy=10,cc=335577"),
    ("border.jpg", "dw=160,bw=6,bh=6,bc=aa3300"),
    ("turned.jpg", "dw=107,angle=90"),
    ("blur.jpg", "dw=160,blur=6x3"),
    ("poor.jpg", "dw=160,q=10"),
];

#[test]
fn example_pictures_docs_are_current() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sample = project.join("examples/gallery/public/samples/sky.jpg");
    let running = start("", |root| {
        fs::copy(sample, root.join("sky.jpg")).unwrap();
    });
    let page = fs::read_to_string(project.join("docs/images.md")).unwrap();
    for (name, parameters) in EXAMPLES {
        let made = running.get(&format!("/small_light({parameters})/sky.jpg"), "");
        assert_eq!(made.status(), 200, "{parameters}");
        let path = project.join("docs/images").join(name);
        if std::env::var("UPDATE").is_ok_and(|what| what == "docs") {
            fs::create_dir_all(project.join("docs/images")).unwrap();
            fs::write(&path, &made.body).unwrap();
        }
        // Pixels may differ in the last digit from processor to processor: what counts is that it shows the same.
        let kept = fs::read(&path).unwrap_or_default();
        let far = kept.len().abs_diff(made.body.len());
        assert!(far * 20 <= made.body.len(), "{name} is old: run ./dev docs");
        let row = format!("![{parameters}](images/{name})");
        assert!(page.contains(&row), "docs/images.md must show {row}");
    }
}
