// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! Asks pkg-config where libgpudirect is.

use std::process::{exit, Command};

const WANTED: &str = "gpudirect >= 0.2.0";

fn refuse(why: &str) -> ! {
    eprintln!(
        "{why}\nInstall libgpudirect (Debian: libgpudirect-dev and pkgconf), or, if it is installed elsewhere, \
               name the folder of its gpudirect.pc in PKG_CONFIG_PATH."
    );
    exit(1)
}

fn main() {
    for name in ["PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "PKG_CONFIG_SYSROOT_DIR"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_string());
    let output = Command::new(&program)
        .args(["--libs", "--print-errors", WANTED])
        .output()
        .unwrap_or_else(|error| refuse(&format!("{program} cannot be run: {error}.")));
    if !output.status.success() {
        refuse(&String::from_utf8_lossy(&output.stderr));
    }
    for word in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(library) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }
}
