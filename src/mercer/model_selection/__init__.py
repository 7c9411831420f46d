"""Choosing a machine honestly: splits, search, contenders, and the seal on the test part."""
