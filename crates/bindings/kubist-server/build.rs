//! Locates the built page, which is embedded in the library.

use std::path::Path;

fn main() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../viewer/dist");
    println!("cargo::rerun-if-changed={}", page.display());
    for file in ["index.html", "app.js", "first.js", "app.css"] {
        if !page.join(file).is_file() {
            println!(
                "cargo::error=the explorer page is not built ({file} is missing in viewer/dist): \
                 run `make page`, which needs Node.js 18 or newer and npm"
            );
            return;
        }
    }
    println!("cargo::rustc-env=KUBIST_PAGE={}", page.display());
}
