"""Hecuba's own tests against `kubist.hecuba`."""
