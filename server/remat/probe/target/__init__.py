"""The model that is meant: found in the user's code and built, with as little of that code as it takes."""
