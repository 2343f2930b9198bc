"""The service: builds what clients ask for, so that each function is compiled once, by somebody everyone trusts."""
