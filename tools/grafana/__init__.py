"""The dashboards for Grafana, as Python: what each shows, and what writes their JSON."""
