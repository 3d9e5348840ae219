"""Campaigns that break things at random moments, seed after seed. A failing round prints how to repeat it."""
