"""Tables in a bucket beside other systems, and what commits to it take: `make bench-s3`."""
