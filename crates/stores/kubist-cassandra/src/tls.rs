//! TLS connections to authenticated nodes.
//!
//! The certificate of a node must be signed by a certificate in the location's file, be valid now, and match the node's
//! address, because the driver knows only this address.

use std::sync::Arc;

use kubist_store::{Error, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};

pub fn trusting(authorities: &str) -> Result<Arc<ClientConfig>> {
    let io = |source| Error::Io { operation: "read certificates from", file: authorities.to_owned(), source };
    let unusable = |what: String| io(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
    let failed = |error| match error {
        pem::Error::Io(source) => io(source),
        other => unusable(other.to_string()),
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authorities).map_err(failed)? {
        roots.add(certificate.map_err(failed)?).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("it contains no certificate".into()));
    }
    Ok(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

/// Whether a connection failed because the other side does not use TLS.
pub fn is_not_spoken(error: &std::io::Error) -> bool {
    let source = error.get_ref().and_then(|source| source.downcast_ref());
    matches!(source, Some(rustls::Error::InvalidMessage(_)))
}
