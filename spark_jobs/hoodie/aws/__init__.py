"""Amazon's services: credentials and a client; what uses them is in other packages."""
