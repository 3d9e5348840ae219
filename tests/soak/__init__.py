"""Campaigns that break things at random moments, seed after seed. A round that fails prints how to repeat it."""
