"""A page to fill tables with, and the REST API underneath: `cdsa serve`."""
