//! `kubist view`: prints an address, serves, and ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::files::{Workdir, particles};

#[test]
fn it_serves_until_it_is_stopped() {
    let workdir = Workdir::new();
    workdir.table("run.kubist", &particles(0, 500));
    workdir.table("other.kubist", &particles(0, 20));
    let mut server =
        workdir.command("view run.kubist other.kubist").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").unwrap().strip_suffix('/').unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(b"GET /v1/tables HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"name\":\"run\"") && answer.contains("\"rows\":500"), "{answer}");
    assert!(answer.contains("\"name\":\"other\""), "{answer}");
    let stopped = Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    assert_eq!(server.wait().unwrap().code(), Some(0), "to stop it is how it ends");
}

/// With the token on standard input, the server ends when standard input closes.
#[test]
fn it_ends_with_its_input() {
    let workdir = Workdir::new();
    workdir.table("run.kubist", &particles(0, 50));
    let mut command = workdir.command("view run.kubist --token -");
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    writeln!(input, "0123456789abcdef").unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.ends_with("/?token=0123456789abcdef\n"), "{line}");
    let address = line.trim().strip_prefix("http://").unwrap().split('/').next().unwrap();
    let ask = |token: &str| {
        let mut socket = TcpStream::connect(address).unwrap();
        let head = "GET /v1/tables HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        write!(socket, "{head}authorization: Bearer {token}\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("0123456789abcdef").contains("\"name\":\"run\""));
    assert!(ask("another-token-00").starts_with("HTTP/1.1 401"));
    drop(input);
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn what_it_cannot_serve_it_refuses() {
    let workdir = Workdir::new();
    workdir.table("run.kubist", &particles(0, 20));
    workdir.run("view nowhere.kubist").fails(3, &["nowhere.kubist"]);
    workdir.run("view run.kubist --address 0.0.0.0").fails(2, &["--token"]);
    workdir.run("view run.kubist --address 0.0.0.0 --token short").fails(2, &["16"]);
    workdir.run("view ssh://host").fails(2, &["ssh://host", "path"]);
    workdir.run("view ssh://host/t run.kubist").fails(2, &["run.kubist"]);
    workdir.run("view ssh://host/t --address 0.0.0.0 --token 0123456789abcdef").fails(2, &["--address"]);
    workdir.run("view run.kubist --address 203.0.113.1 --token 0123456789abcdef").fails(4, &["203.0.113.1"]);
}
