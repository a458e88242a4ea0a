//! Compiles what stands between libavif and `avif.rs`, where AVIF is asked for.

fn main() {
    println!("cargo::rerun-if-changed=src/avif.c");
    #[cfg(feature = "avif")]
    {
        cc::Build::new().file("src/avif.c").compile("gannet_avif");
        println!("cargo::rustc-link-lib=avif");
    }
}
