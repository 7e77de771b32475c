"""What tests of several packages share: notebooks, shells and repositories of their own."""
