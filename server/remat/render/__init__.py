"""Findings as people and programs want them: pure functions from reports to text, one module for each format."""
