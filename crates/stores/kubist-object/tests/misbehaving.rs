//! A small service in this process that loses responses, throttles, refuses, or ignores conditions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::common::fresh_on;
use crate::common::service::{Does, ObjectRequest, Service};
use kubist_object::{Location, ObjectStore};
use kubist_store::{Error, Result, Store, conformance, stoppable};

fn at(service: &Service, settings: &str) -> Location {
    fresh_on(&service.address, &format!("&region=us-east-1{settings}"))
}

#[test]
fn the_small_service_keeps_the_promises() {
    let service = Service::start();
    conformance::run(&mut || Arc::new(ObjectStore::create(at(&service, "")).unwrap()));
}

#[test]
fn a_put_whose_answer_is_lost_is_done_once() {
    let service = Service::start();
    let store = ObjectStore::create(at(&service, "")).unwrap();
    let mut log = store.own_log("w").unwrap();
    let lost = Arc::new(AtomicU32::new(0));
    let count = lost.clone();
    let mut number = 0;
    service.does(move |asked: &ObjectRequest| {
        number += 1;
        // Loses the response to the first attempt of each put, and every third response to retries and reads.
        match asked.method == "PUT" && number % 2 == 1 || number % 3 == 0 {
            true => {
                count.fetch_add(1, Ordering::Relaxed);
                Does::LoseAnswer
            }
            false => Does::Serve,
        }
    });
    for entry in 0..8u8 {
        log.append(&[entry]).unwrap();
        assert!(
            store.put_if_absent(&format!("rewrites/{entry}"), &[entry]).unwrap(),
            "a put that won was told it lost"
        );
        assert!(!store.put_if_absent(&format!("rewrites/{entry}"), b"other").unwrap());
    }
    assert!(lost.load(Ordering::Relaxed) > 8);
    service.does(|_| Does::Serve);
    let tail = store.read_log("w", 0).unwrap();
    assert_eq!(tail.entries.len(), 8);
    assert!(tail.entries.iter().zip(0u8..).all(|(entry, number)| entry.bytes[..] == [number]));
}

#[test]
fn requests_are_repeated_while_the_service_asks_for_fewer() {
    let service = Service::start();
    let store = ObjectStore::create(at(&service, "")).unwrap();
    let mut number = 0;
    service.does(move |_| {
        number += 1;
        if number % 3 == 0 { Does::Serve } else { Does::Refuse(503, "SlowDown") }
    });
    assert!(store.put_if_absent("table", b"x").unwrap());
    assert_eq!(store.get("table").unwrap().unwrap(), "x");
    // The service never stops throttling.
    let store = ObjectStore::open(at(&service, "")).map(drop);
    assert!(matches!(store, Err(Error::Missing { .. })));
    service.does(|_| Does::Refuse(503, "SlowDown"));
    let error = ObjectStore::open(at(&service, "&patience=1")).map(drop).unwrap_err();
    assert!(matches!(&error, Error::Unreachable { why, .. } if why.contains("SlowDown")), "{error}");
}

#[test]
fn a_service_that_lets_two_puts_win_is_refused_and_nothing_is_left() {
    let service = Service::start();
    service.does(|_| Does::IgnoreCondition);
    let error = ObjectStore::create(at(&service, "")).map(drop).unwrap_err();
    let Error::Io { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("both win"), "{error}");
    assert!(service.values.lock().unwrap().is_empty());
    // A service that does not support the condition returns an error itself.
    service.does(|asked| match asked.method.as_str() {
        "PUT" => Does::Refuse(501, "NotImplemented"),
        _ => Does::Serve,
    });
    let error = ObjectStore::create(at(&service, "&patience=1")).map(drop).unwrap_err();
    assert!(error.to_string().contains("does not support this request"), "{error}");
}

#[test]
fn refusals_say_what_to_do() {
    let service = Service::start();
    let store = ObjectStore::create(at(&service, "")).unwrap();
    for (status, code, kind, word) in [
        (403, "AccessDenied", std::io::ErrorKind::PermissionDenied, "no permission"),
        (400, "ExpiredToken", std::io::ErrorKind::PermissionDenied, "expired"),
        (403, "InvalidAccessKeyId", std::io::ErrorKind::PermissionDenied, "access key"),
        (403, "RequestTimeTooSkewed", std::io::ErrorKind::PermissionDenied, "clock"),
        (400, "AuthorizationHeaderMalformed", std::io::ErrorKind::Unsupported, "region"),
        (404, "NoSuchBucket", std::io::ErrorKind::Unsupported, "no such bucket"),
    ] {
        service.does(move |_| Does::Refuse(status, code));
        for error in [store.get("table").map(drop), store.put_if_absent("table", b"").map(drop)] {
            let error = error.unwrap_err();
            let Error::Io { source, .. } = &error else { panic!("{code}: {error}") };
            assert_eq!(source.kind(), kind, "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
    service.does(|_| Does::Refuse(403, "QuotaExceeded"));
    let error = store.put_if_absent("table", b"").unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
}

/// Lengths are requested by HEAD, whose response has no body.
#[test]
fn a_refusal_without_a_body_says_what_to_do_too() {
    let service = Service::start();
    let store = ObjectStore::create(at(&service, "&patience=1")).unwrap();
    let below = || store.put_if_absent("a/b", b"").unwrap_err();
    for (status, code, word) in [
        (403, "AccessDenied", "no permission: check the policies of the bucket"),
        (403, "InvalidAccessKeyId", "does not know the access key"),
        (403, "RequestTimeTooSkewed", "clock"),
        (400, "ExpiredToken", "have expired"),
        (400, "AuthorizationHeaderMalformed", "another region"),
    ] {
        let heads = Arc::new(AtomicU32::new(0));
        let count = heads.clone();
        service.does(move |asked: &ObjectRequest| {
            count.fetch_add(u32::from(asked.method == "HEAD"), Ordering::Relaxed);
            // The bucket itself may be listed.
            if asked.key.is_empty() { Does::Serve } else { Does::Refuse(status, code) }
        });
        let error = below();
        assert!(heads.load(Ordering::Relaxed) > 0, "nothing was asked by HEAD: {error}");
        assert!(error.to_string().contains(word) && error.to_string().contains(code), "{error}");
    }
    // A service that gives no reason for GET either.
    service.does(|asked| match asked.method.as_str() {
        "HEAD" => Does::Refuse(403, "AccessDenied"),
        _ => Does::Serve,
    });
    let error = below().to_string();
    assert!(["no permission", "credentials", "region", "policy"].iter().all(|word| error.contains(word)), "{error}");
}

#[test]
fn an_owner_whose_last_entry_is_doubtful_is_settled_by_the_next() {
    let service = Service::start();
    let store = ObjectStore::create(at(&service, "&patience=1")).unwrap();
    let mut log = store.own_log("w").unwrap();
    let end = log.append(b"first").unwrap();
    // The entry arrives, and the service becomes silent.
    service.does(|asked| match asked.method.as_str() {
        "PUT" => Does::LoseAnswer,
        _ => Does::Refuse(503, "ServiceUnavailable"),
    });
    assert!(log.append(b"doubtful").is_err());
    assert!(matches!(log.append(b"more"), Err(Error::Refused { .. })));
    service.does(|_| Does::Serve);
    drop(log);
    let mut next = store.own_log("w").unwrap();
    assert_eq!(next.position(), end + 1);
    next.append(b"second").unwrap();
    let found: Vec<_> = store.read_log("w", 0).unwrap().entries.into_iter().map(|entry| entry.bytes).collect();
    assert_eq!(found, ["first", "doubtful", "second"]);
}

#[test]
fn a_log_that_could_not_be_taken_is_given_back() {
    let service = Service::start();
    let store = ObjectStore::create(at(&service, "")).unwrap();
    for folder in ["/logs/", "/writers/"] {
        service.does(move |asked| match asked.method == "PUT" && asked.key.contains(folder) {
            true => Does::Refuse(403, "AccessDenied"),
            false => Does::Serve,
        });
        let error = store.own_log("w").map(drop).unwrap_err();
        assert!(error.to_string().contains("no permission"), "{error}");
        let claims = service.values.lock().unwrap();
        let last = claims.iter().rfind(|(key, _)| key.contains("/claims/w/")).map(|(_, bytes)| bytes[32]);
        assert_eq!(last, Some(5), "the claim still stands");
    }
    service.does(|_| Does::Serve);
    store.own_log("w").unwrap().append(b"entry").unwrap();
    assert_eq!(store.read_log("w", 0).unwrap().entries.len(), 1);
}

/// The time for which an operation is retried on a service that has responded before.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_call_that_waits_for_a_service_ends_when_it_is_stopped() {
    let service = Service::start();
    let store = ObjectStore::create(at(&service, "")).unwrap();
    let mut log = store.own_log("w").unwrap();
    // A prompt response is unaffected.
    assert_eq!(stoppable(|| true, || log.append(b"entry")).unwrap(), log.position());
    service.does(|_| Does::Silence);
    let begin = Instant::now();
    let stopped = |call: &mut dyn FnMut() -> Result<()>| stoppable(|| true, call);
    assert!(matches!(stopped(&mut || store.get("table").map(drop)), Err(Error::Stopped { .. })));
    assert!(matches!(stopped(&mut || log.append(b"doubtful").map(drop)), Err(Error::Stopped { .. })));
    assert!(matches!(log.append(b"more"), Err(Error::Refused { .. })));
    // Releasing a claim does not wait either.
    drop(log);
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}

#[test]
fn a_service_that_nobody_has_heard_of_is_given_up_within_seconds() {
    let silent = Service::start();
    silent.does(|_| Does::Silence);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut closed = Service::start();
    closed.address = format!("http://{nobody}");
    std::thread::scope(|scope| {
        for (service, word) in [(&silent, "no response"), (&closed, "refused")] {
            scope.spawn(move || {
                let begin = Instant::now();
                let error = ObjectStore::create(at(service, "")).unwrap_err();
                assert!(matches!(&error, Error::Unreachable { why, .. } if why.contains(word)), "{error}");
                assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
            });
        }
    });
}
