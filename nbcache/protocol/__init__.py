"""What clients and daemons say to each other, as files in the store: requests, failures, heartbeats."""
