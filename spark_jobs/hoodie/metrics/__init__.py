"""Figures of what was completed, for a monitoring system."""
