"""The version of Stepwell."""

VERSION = "0.1.0"
