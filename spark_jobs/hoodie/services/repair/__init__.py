"""Failed writes rolled back, and what killed processes left behind swept, before the services that follow."""
