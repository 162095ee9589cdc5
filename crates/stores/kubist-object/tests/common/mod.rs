//! A new store per test, in the bucket `kubist-tests` of the service at the address `KUBIST_TEST_S3`, with credentials
//! from the usual places.

pub mod service;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::TryStreamExt;
use kubist_object::{Location, ObjectStore};
use object_store::ObjectStoreExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;

static COUNT: AtomicU32 = AtomicU32::new(0);

pub fn address() -> String {
    std::env::var("KUBIST_TEST_S3").expect("KUBIST_TEST_S3 names no service: see scripts/s3.py")
}

pub fn fresh_at(address: &str, settings: &str) -> Location {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let name = format!("t{now:x}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    Location::parse(&format!("s3://kubist-tests/{name}?endpoint={address}{settings}")).unwrap()
}

/// An unused location; all threads use the same keys, which are set once.
pub fn fresh_on(address: &str, settings: &str) -> Location {
    static KEYS: std::sync::Once = std::sync::Once::new();
    // SAFETY: no other thread of these tests reads the environment before this call has returned.
    KEYS.call_once(|| unsafe {
        std::env::set_var("AWS_ACCESS_KEY_ID", "test");
        std::env::set_var("AWS_SECRET_ACCESS_KEY", "testsecret");
        std::env::remove_var("AWS_PROFILE");
    });
    fresh_at(address, settings)
}

pub fn store() -> Arc<ObjectStore> {
    Arc::new(ObjectStore::create(fresh_at(&address(), "")).unwrap())
}

pub struct Bucket {
    runtime: tokio::runtime::Runtime,
    bucket: AmazonS3,
    prefix: String,
}

impl Bucket {
    pub fn of(location: &Location) -> Bucket {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let builder = AmazonS3Builder::from_env().with_bucket_name(&location.bucket).with_allow_http(true);
        let bucket = builder.with_endpoint(location.endpoint.as_ref().unwrap()).with_disable_bulk_delete(true);
        Bucket { runtime, bucket: bucket.build().unwrap(), prefix: location.prefix.clone() }
    }

    fn path(&self, key: &str) -> Path {
        Path::from(format!("{}/{key}", self.prefix))
    }

    pub fn keys(&self, folder: &str) -> Vec<String> {
        use object_store::ObjectStore as _;
        let listed = self.bucket.list(Some(&self.path(folder))).try_collect::<Vec<_>>();
        let found = self.runtime.block_on(listed).unwrap();
        let mut keys: Vec<String> =
            found.iter().map(|of| of.location.as_ref()[self.prefix.len() + 1..].into()).collect();
        keys.sort_unstable();
        keys
    }

    pub fn get(&self, key: &str) -> Vec<u8> {
        self.runtime.block_on(async { self.bucket.get(&self.path(key)).await.unwrap().bytes().await.unwrap() }).into()
    }

    pub fn put(&self, key: &str, bytes: Vec<u8>) {
        self.runtime.block_on(self.bucket.put(&self.path(key), bytes.into())).unwrap();
    }

    pub fn delete(&self, key: &str) {
        self.runtime.block_on(self.bucket.delete(&self.path(key))).unwrap();
    }

    pub fn forget_claims(&self, writer: &str) {
        for key in self.keys(&format!("claims/{writer}")) {
            self.delete(&key);
        }
    }
}
