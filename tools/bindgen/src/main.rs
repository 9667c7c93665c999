//! `lasthop-bindgen MODULE.wasm FOLDER`: writes the module and the JavaScript that calls it, for browsers, into FOLDER.

use std::error::Error;
use std::path::PathBuf;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let [module, folder] =
        <[PathBuf; 2]>::try_from(std::env::args_os().skip(1).map(PathBuf::from).collect::<Vec<_>>())
            .map_err(|_| "usage: lasthop-bindgen MODULE.wasm FOLDER")?;
    Ok(Bindgen::new()
        .input_path(module)
        .web(true)?
        .typescript(true)
        .remove_name_section(true)
        .omit_default_module_path(true)
        .generate(folder)?)
}
