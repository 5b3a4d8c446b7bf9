"""The language: element types, shapes, devices, operation definitions, graphs and how they are built, written and checked."""
