"""Lowering passes between the IR levels, and the phases that a module goes through."""
