"""The webhooks service: keeps an address for each subscription, and makes every signed event that arrives there one run."""
