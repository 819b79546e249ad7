//! Reads and writes tools in a registry without TLS, with the crate of `wkg`: `wkg push|pull HOST/NAME:TAG FILE`, and
//! `wkg push-wassette HOST/NAME:TAG FILE POLICY` for two layers, as Wassette publishes them.

use anyhow::{Context, Result, bail};
use oci_client::client::{Client, ClientConfig, ClientProtocol, ImageLayer};
use oci_client::manifest::OciImageManifest;
use oci_client::{Reference, secrets::RegistryAuth::Anonymous};
use oci_wasm::{ToConfig, WASM_LAYER_MEDIA_TYPE, WasmClient, WasmConfig};

const POLICY: &str = "application/vnd.wasm.policy.v1+yaml";

async fn run(arguments: &[&str]) -> Result<()> {
    let config = ClientConfig { protocol: ClientProtocol::Http, ..Default::default() };
    let client = WasmClient::new(Client::new(config));
    match arguments {
        ["pull", reference, file] => {
            let reference: Reference = reference.parse()?;
            let (_, config, digest) = client.pull_manifest_and_config(&reference, &Anonymous).await?;
            let image = client.pull(&reference, &Anonymous).await?;
            std::fs::write(file, &image.layers[0].data)?;
            let component = config.component.context("the config has no component")?;
            println!("{digest} {} {} {}", config.os, component.imports.join(","), component.exports.join(","));
        }
        ["push", reference, file] => {
            let (config, layer) = WasmConfig::from_component(file, None).await?;
            client.push(&reference.parse()?, &Anonymous, layer, config, None).await?;
        }
        ["push-wassette", reference, file, policy] => {
            let (config, component) = WasmConfig::from_component(file, None).await?;
            let policy = ImageLayer::new(std::fs::read(policy)?, POLICY.to_string(), None);
            let (layers, config) = ([component, policy], config.to_config()?);
            assert_eq!(layers[0].media_type, WASM_LAYER_MEDIA_TYPE);
            let manifest = OciImageManifest::build(&layers, &config, None);
            client.as_ref().push(&reference.parse()?, &layers, config, &Anonymous, Some(manifest)).await?;
        }
        _ => bail!("expected push, pull or push-wassette"),
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(&arguments))
}
