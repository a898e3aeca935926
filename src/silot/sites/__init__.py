"""Sites: holders in processes and on machines of their own, asked over mutual TLS."""
