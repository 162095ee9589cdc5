"""Tables in a bucket compared with other systems, and the time of commits: `make bench-s3`."""
